// Keeps the page live: the server sends its main part again whenever that has changed.
"use strict";
(() => {
  const main = document.getElementById("main");
  const address = document.body.dataset.live;
  if (!main || !address || !window.EventSource) return;

  const state = (text, alive) => {
    const tag = document.getElementById("live");
    if (!tag) return;
    tag.textContent = text;
    tag.classList.toggle("ok", alive);
    tag.classList.toggle("warn", !alive);
  };

  // attributes makes the attributes of two elements equal, but for what a reader sets: open details.
  const attributes = (to, from) => {
    for (const { name } of [...to.attributes]) {
      if (!from.hasAttribute(name) && name !== "open") to.removeAttribute(name);
    }
    for (const { name, value } of [...from.attributes]) {
      if (to.getAttribute(name) !== value) to.setAttribute(name, value);
    }
  };

  // morph changes only what differs, so that focus, selection and scroll stay.
  const morph = (to, from) => {
    const old = [...to.childNodes];
    const next = [...from.childNodes];
    next.forEach((node, i) => {
      const before = old[i];
      if (!before) {
        to.appendChild(node);
      } else if (before.nodeName !== node.nodeName) {
        to.replaceChild(node, before);
      } else if (node.nodeType !== Node.ELEMENT_NODE) {
        if (before.nodeValue !== node.nodeValue) before.nodeValue = node.nodeValue;
      } else if (!/^(INPUT|SELECT)$/.test(node.nodeName) || node.type === "hidden") {
        attributes(before, node);
        morph(before, node);
      }
    });
    old.slice(next.length).forEach((node) => node.remove());
  };

  // The notice of a change is shown once.
  history.replaceState(null, "", "." + address);
  const notice = document.querySelector(".notice");
  const events = new EventSource("events?at=" + encodeURIComponent(address));
  events.addEventListener("page", (event) => {
    // What a form asks for stays what its reader has seen.
    if (main.querySelector("details.ask[open]")) return state("waits for you", false);
    const sent = new DOMParser().parseFromString(JSON.parse(event.data), "text/html").body;
    if (notice) sent.querySelector(".bar").after(notice.cloneNode(true));
    morph(main, sent);
    state("live", true);
  });
  events.addEventListener("error", () => state("not live", false));
  addEventListener("pagehide", () => events.close());
})();
