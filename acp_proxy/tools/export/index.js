"use strict";
(() => {
  const box = document.getElementById("search"), asked = document.getElementById("asked");
  const found = document.getElementById("found"), data = JSON.parse(document.getElementById("words").textContent);
  const words = data.words ? data.words.split(" ") : [], lists = data.sessions.split(" ");
  const fold = (text) => text.normalize("NFC").toLowerCase();
  const rows = [...document.querySelectorAll(".sessions li")].map((row) => {
    const project = row.closest(".project");
    return { row, number: Number(row.dataset.number), text: fold(`${project.querySelector("h2").textContent} ${row.textContent}`) };
  });
  const groups = [...document.querySelectorAll(".day"), ...document.querySelectorAll(".project")];
  const projects = document.querySelector(".contents details"), isNarrow = matchMedia("(max-width: 72rem)");
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link.parentElement]));

  /** The numbers of the sessions in which a word contains this. */
  const sessionsWith = (part) => {
    const numbers = new Set();
    words.forEach((word, at) => {
      if (word.includes(part)) {
        let number = 0;
        for (const gap of lists[at].split(",")) numbers.add((number += parseInt(gap, 36)));
      }
    });
    return numbers;
  };
  /** Whether a session has this, by its number and the text of its row. Signs are no part of words: a.b means a and b. */
  const testFor = (term) => {
    const sets = (term.match(/[\p{L}\p{N}_]+/gu) ?? []).map(sessionsWith);
    return ({ number, text }) => text.includes(term) || (sets.length > 0 && sets.every((set) => set.has(number)));
  };
  const search = () => {
    const tests = fold(asked.value).split(/\s+/).filter(Boolean).map(testFor);
    let count = 0;
    for (const each of rows) {
      each.row.hidden = !tests.every((test) => test(each));
      count += !each.row.hidden;
    }
    for (const group of groups) {
      group.hidden = !group.querySelector("li:not([hidden])");
      if (!links.has(group.id)) continue;
      const link = links.get(group.id);
      link.hidden = group.hidden;
      link.querySelector("span").textContent = group.querySelectorAll("li:not([hidden])").length;
    }
    // What is found comes first where the projects are above it.
    if (projects && isNarrow.matches) projects.open = !tests.length;
    found.textContent = !tests.length ? "" : count === 0 ? "No session has all of these words." : count === 1 ? "1 session" : `${count.toLocaleString("en")} sessions`;
    history.replaceState(null, "", asked.value ? `#search=${encodeURIComponent(asked.value)}` : location.pathname + location.search);
  };
  const move = (by) => {
    const shown = [asked, ...document.querySelectorAll(".sessions li:not([hidden]) a")];
    // Whoever has selected nothing begins with the first session that is in view.
    const isBegin = document.activeElement === document.body;
    const at = isBegin ? shown.findIndex((one) => one !== asked && one.getBoundingClientRect().top >= 0) - 1 : shown.indexOf(document.activeElement);
    shown[Math.min(Math.max(at + by, 0), shown.length - 1)].focus();
  };

  const clear = () => {
    asked.value = "";
    asked.focus();
    search();
  };

  let waiting = 0;
  asked.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 80);
  });
  document.addEventListener("keydown", (event) => {
    const isInList = event.target === asked || event.target.closest?.(".sessions");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && event.target !== asked) asked.focus();
    else if (event.key === "Escape" && asked.value) clear();
    else if (event.key === "ArrowDown" && (isInList || event.target === document.body)) move(1);
    else if (event.key === "ArrowUp" && isInList) move(-1);
    else if (event.key === "Enter" && event.target === asked) move(1);
    else return;
    event.preventDefault();
  });
  box.hidden = false;
  // A reader who comes back from a conversation finds the search as it was.
  const before = location.hash.match(/^#search=(.*)$/);
  if (before) {
    try {
      asked.value = decodeURIComponent(before[1]);
    } catch {
      return;
    }
    search();
  }
})();
