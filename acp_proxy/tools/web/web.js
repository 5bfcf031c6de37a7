"use strict";
// What a page does beyond links: it reads on where the reader scrolls to, follows what grows, and knows some keys. All
// text comes from this server, as whole pages; nothing is put together from text here.
(() => {
  const main = document.querySelector("main"), news = document.getElementById("news"), asked = document.getElementById("asked");
  const SHORTEST_MS = 2000, LONGEST_MS = 60000;
  const NO_ANSWER = "acp-proxy web does not answer: what is here may be old. Start it again, and open its new link.";

  const read = async (address) => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    return answer;
  };
  const readPage = async (address) =>
    new DOMParser().parseFromString(await (await read(address)).text(), "text/html");

  // --- Reading on

  /** Put the next page's sections after those that are here: a session once, a day under one heading, and what was found
   *  in one list. */
  const append = (page, link) => {
    const known = new Set([...main.querySelectorAll("[data-place]")].map((row) => row.dataset.place));
    page.querySelectorAll("[data-place]").forEach((row) => known.has(row.dataset.place) && row.remove());
    const groups = "main > .day, main > ul";
    const last = [...document.querySelectorAll(groups)].at(-1), first = page.querySelector(groups);
    if (last && first && last.dataset.day === first.dataset.day) {
      (last.querySelector("ul") ?? last).append(...first.querySelectorAll("li"));
      first.remove();
    }
    const told = page.getElementById("news");
    if (told?.textContent) news.textContent = told.textContent;
    const added = [...page.querySelector("main").children].filter((each) => !each.querySelector(".earlier"));
    const hadFocus = document.activeElement === link;
    link.parentElement.replaceWith(...added);
    if (hadFocus) added.map((each) => each.querySelector("a")).find(Boolean)?.focus({ preventScroll: true });
    const { part, size } = page.querySelector("main").dataset;
    if (part) Object.assign(main.dataset, { part, size });
  };
  /** Put what comes before above what is here, which stays where the reader sees it. */
  const prepend = (page, link) => {
    const seen = [...main.querySelectorAll(":scope > section")].find((each) => each.getBoundingClientRect().bottom > 0);
    const top = seen?.getBoundingClientRect().top, root = document.documentElement;
    root.style.overflowAnchor = "none"; // else the browser might scroll, too
    link.parentElement.replaceWith(...[...page.querySelectorAll("main > section, main > p:has(.earlier)")]);
    if (seen) scrollBy({ top: seen.getBoundingClientRect().top - top, behavior: "instant" });
    requestAnimationFrame(() => { root.style.overflowAnchor = ""; });
  };
  const watchBeginning = new IntersectionObserver(async ([{ isIntersecting, target }]) => {
    if (!isIntersecting) return;
    watchBeginning.unobserve(target);
    try {
      prepend(await readPage(target.href), target);
    } catch {
      return; // the link stays
    }
    findBeginning();
  }, { rootMargin: "1000px" });
  const findBeginning = () => {
    const link = main.querySelector(".earlier");
    if (link) watchBeginning.observe(link);
  };
  const watchEnd = new IntersectionObserver(async (seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      watchEnd.unobserve(target);
      try {
        append(await readPage(target.href), target);
      } catch {
        return; // the link stays
      }
      findEnd();
    }
  }, { rootMargin: "3000px" });
  const findEnd = () => {
    const link = main.querySelector(".more");
    if (link) watchEnd.observe(link);
  };

  /** Whoever comes back to a page finds as much of it as was there, and the place where he was. */
  const comeBack = async ({ count, top }) => {
    for (let link; countParts() < count && (link = main.querySelector(".more")); ) append(await readPage(link.href), link);
    scrollTo({ top });
  };
  const countParts = () => main.querySelectorAll("[data-place], .turn").length;
  addEventListener("pagehide", () => history.replaceState({ count: countParts(), top: scrollY }, ""));
  (history.state?.count > countParts() ? comeBack(history.state).catch(() => {}) : Promise.resolve()).then(findEnd);
  // Not before the browser has scrolled to the turn that the address names.
  if (main.querySelector(".earlier")) addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(findBeginning)));

  // --- Contents

  const load = document.querySelector(".contents .load");
  if (load) {
    readPage(load.href).then((page) => load.parentElement.replaceWith(page.querySelector(".contents ol")), () => {});
    document.querySelector(".contents").addEventListener("click", (event) => {
      const hash = event.target.closest("a")?.hash;
      if (!hash || !document.getElementById(hash.slice(1))) return; // a turn that is not here yet: its own page
      event.preventDefault();
      location.hash = hash;
    });
  }

  // --- What grows

  const showNewList = async (state) => {
    const page = await readPage(location.href);
    if (scrollY < innerHeight && !main.querySelector("section:focus-within")) {
      main.replaceChildren(...page.querySelector("main").children);
      findEnd();
      news.textContent = "";
    } else {
      const link = document.createElement("a");
      link.href = location.href;
      link.textContent = "There is something new. Show it";
      news.replaceChildren(link);
    }
    main.dataset.state = state;
  };
  const followList = async () => {
    const { state } = await (await read(main.dataset.list)).json();
    if (state !== main.dataset.state) await showNewList(state);
  };
  const followSession = async () => {
    if (main.querySelector(".more")) return; // the reader is not at the end yet
    const { session, part, size } = main.dataset;
    const now = await (await read(`${session}/state`)).json();
    if (String(now.size) === size) return;
    const page = await readPage(part);
    const open = new Set([...main.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
    const isAtEnd = scrollY + innerHeight > document.documentElement.scrollHeight - 100;
    const fresh = [...page.querySelectorAll("main > section")], first = fresh[0]?.id;
    const old = [...main.querySelectorAll(":scope > section")];
    const from = old.findIndex((each) => each.id === first);
    if (from < 0) return;
    // Sections that are as they were stay: what the reader has opened or selected in them stays, too.
    let same = 0;
    while (old[from + same] && fresh[same] && old[from + same].isEqualNode(closed(fresh[same], old[from + same]))) same += 1;
    old.slice(from + same).forEach((each) => each.remove());
    main.querySelector(":scope > .end")?.remove();
    const added = fresh.slice(same);
    const lines = added.flatMap((each) => [...each.querySelectorAll("summary")]);
    lines.filter((line) => open.has(line.textContent)).forEach((line) => { line.parentElement.open = true; });
    main.append(...added, ...page.querySelectorAll("main > p:has(.more), main > .end"));
    main.dataset.size = page.querySelector("main").dataset.size;
    if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
    findEnd();
  };
  /** The new section with the same of its parts open as the old one has. */
  const closed = (section, old) => {
    const here = old.querySelectorAll("details");
    section.querySelectorAll("details").forEach((each, at) => { if (here[at]) each.open = here[at].open; });
    return section;
  };
  const follow = main.dataset.list ? followList : main.dataset.session ? followSession : null;
  const wait = (time) => setTimeout(async () => {
    if (document.hidden) return wait(SHORTEST_MS);
    const began = performance.now();
    try {
      await follow();
      if (news.textContent === NO_ANSWER) news.textContent = "";
    } catch (problem) {
      if (problem.message === "404") location.reload(); // the session was deleted
      else news.textContent = NO_ANSWER;
      return wait(LONGEST_MS);
    }
    // A long conversation takes longer to read: it is asked for less often.
    wait(Math.min(Math.max(SHORTEST_MS, 10 * (performance.now() - began)), LONGEST_MS));
  }, time);
  if (follow) wait(SHORTEST_MS);

  // --- Keys

  const findFirstSeen = (links) => {
    const top = findTop();
    return links.find((link) => link !== asked && link.getBoundingClientRect().top >= top);
  };
  const findTop = () => Math.max(asked.closest(".bar").getBoundingClientRect().bottom, 0);
  /** As n and N in less, where show has them. */
  const goToTurn = (by) => {
    const top = findTop(), turns = [...main.querySelectorAll(".turn")];
    const places = turns.map((turn) => Math.round(turn.getBoundingClientRect().top - top));
    const turn = by > 0 ? turns[places.findIndex((place) => place > 16)] : turns[places.findLastIndex((place) => place < -16)];
    turn?.scrollIntoView();
    return Boolean(turn);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const links = [asked, ...document.querySelectorAll(".sessions li > a")], at = links.indexOf(document.activeElement);
    // Whoever has selected nothing begins with the first session that is in view.
    const next = document.activeElement === document.body ? findFirstSeen(links) : at >= 0 && links[at + 1];
    if (event.key === "/" && event.target !== asked) asked.select();
    else if (event.key === "ArrowDown" && next) next.focus();
    else if (event.key === "ArrowUp" && at > 0) links[at - 1].focus();
    else if (event.key.toLowerCase() === "n" && event.target !== asked && main.dataset.session && goToTurn(event.key === "n" ? 1 : -1));
    else if (event.key === "End" && event.target !== asked && main.dataset.session && main.querySelector(".more")) location.href = document.querySelector(".last").href;
    else if (event.key === "Home" && event.target !== asked && main.querySelector(".earlier")) location.href = main.dataset.session;
    else return;
    event.preventDefault();
  });
})();
