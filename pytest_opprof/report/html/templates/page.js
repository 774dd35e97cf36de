"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Tables: a click on a heading sorts by it, the largest first; a second one turns that around.
for (const heading of all("th[data-sort]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  heading.append(button);
  button.onclick = () => {
    const table = heading.closest("table"), column = heading.cellIndex, body = table.tBodies[0];
    const rises = heading.getAttribute("aria-sort") === "descending";
    for (const other of all("th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", rises ? "ascending" : "descending");
    const keyed = [...body.rows].map(row => [row.cells[column].dataset.v ?? row.cells[column].textContent.trim(), row]);
    const known = keyed.filter(([key]) => key !== ""), unknown = keyed.filter(([key]) => key === "");
    const numbers = known.every(([key]) => !isNaN(key));
    known.sort(([a], [b]) => numbers ? b - a : a.localeCompare(b));
    if (rises) known.reverse();
    body.append(...[...known, ...unknown].map(([, row]) => row));
  };
}

// What filters is of use with this script alone, so it is hidden until here.
for (const box of all("[data-filter]")) {
  box.hidden = false;
  const items = all(box.dataset.filter).map(item => [item, item.textContent.toLowerCase()]);
  const groups = all("details.group"), said = all("[role=status]", box)[0];
  box.oninput = () => {
    const word = all("input[type=search]", box)[0].value.toLowerCase();
    const chosen = all("input[type=checkbox]:checked", box).map(each => each.value);
    let shown = 0;
    for (const [item, text] of items) {
      item.hidden = !text.includes(word) || (chosen.length > 0 && !chosen.includes(item.dataset.status));
      shown += !item.hidden;
    }
    for (const group of groups) group.hidden = all("details.test", group).every(test => test.hidden);
    said.textContent = shown === items.length ? "" : `${shown} of ${items.length} shown`;
  };
}

// Commands: a button beside each copies it. From disk there may be no clipboard for scripts: then it is selected.
for (const command of all("code.cmd")) {
  const button = document.createElement("button");
  [button.type, button.className, button.textContent] = ["button", "copy", "copy"];
  button.setAttribute("aria-label", `Copy ${command.textContent}`);
  button.onclick = event => {
    event.preventDefault();
    const say = text => {
      button.textContent = text;
      setTimeout(() => { button.textContent = "copy"; }, 2000);
    };
    const select = () => {
      getSelection().selectAllChildren(command);
      say(document.execCommand("copy") ? "copied" : "selected: press Ctrl-C");
    };
    navigator.clipboard ? navigator.clipboard.writeText(command.textContent).then(() => say("copied"), select) : select();
  };
  command.after(" ", button);
}

// A link to a test opens it, and the group that it is in.
const open = () => {
  const target = document.getElementById(location.hash.slice(1));
  for (let each = target; each; each = each.parentElement) {
    if (each.tagName === "DETAILS") [each.open, each.hidden] = [true, false];
  }
  target?.scrollIntoView();
};
addEventListener("hashchange", open);
open();
