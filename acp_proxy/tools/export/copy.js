"use strict";
// A button at each block of code copies it. The buttons are in the page, and shown only if this runs.
(() => {
  document.documentElement.classList.add("copies");
  /** Where a browser gives no access to the clipboard, such as an old one in a file: copies what is selected. */
  const copySelected = (code) => {
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  };
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest?.("button.copy");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    const isCopied = await navigator.clipboard?.writeText(code.textContent).then(() => true, () => copySelected(code)) ?? copySelected(code);
    button.textContent = isCopied ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
})();
