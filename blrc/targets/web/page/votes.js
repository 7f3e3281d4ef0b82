/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
"use strict";
/* The table: a row for what all say, a row for each network; a column for each class (of many, the likeliest ten). */

const MOST_COLUMNS = 12;
const LIKELIEST = 10;

function columnsOf(model, sums) {
  const classes = Array.from({ length: model.classes }, (_, c) => c);
  if (classes.length <= MOST_COLUMNS) {
    return classes;
  }
  return sums === null ? classes.slice(0, LIKELIEST) : classes.sort((a, b) => sums[b] - sums[a]).slice(0, LIKELIEST);
}

function percent(q16) {
  return Math.round((100 * q16) / 65536);
}

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  return made;
}

function makeVotes(table, model) {
  const top = table.tHead.insertRow();
  top.append(element("th", "network", { scope: "col" }));
  const count = columnsOf(model, null).length;
  for (let i = 0; i < count; i++) {
    top.append(element("th", "", { scope: "col" }));
  }
  const alone = model.members.length === 1;
  const members = model.members.map((member, k) => addRow(member === "map" ? "likeliest" : String(k + 1), member));
  const mean = alone ? members[0] : addRow("mean", "mean probability");
  mean.className = "mean";
  table.tBodies[0].prepend(mean);

  function addRow(name, title) {
    const row = table.tBodies[0].insertRow();
    row.className = "member";
    row.append(element("th", name, { scope: "row", title }));
    for (let i = 0; i < count; i++) {
      row.insertCell().append(element("span"));
    }
    return row;
  }

  function fill(row, values, columns, label) {
    columns.forEach((c, i) => {
      const cell = row.cells[i + 1];
      const state = values === null ? "" : `${values[c]} ${c === label}`;
      if (cell.dataset.state === state) {
        return; // most are zero, and stay it: drawing must not wait for them
      }
      cell.dataset.state = state;
      const p = values === null ? 0 : values[c] / 65536;
      cell.style.setProperty("--p", p);
      cell.firstChild.textContent = values === null ? "" : percent(values[c]);
      cell.classList.toggle("little", p < 0.005);
      cell.classList.toggle("more", p > 0.55);
      cell.classList.toggle("most", p > 0.75);
      cell.classList.toggle("chosen", c === label);
    });
  }

  /* `steps`: what every network asked so far said, in order; `asked`: how many of them count. Null: nothing yet. */
  return function show(steps, asked) {
    const answer = steps === null ? null : steps[asked - 1];
    const columns = columnsOf(model, answer && answer.p);
    columns.forEach((c, i) => {
      const cell = top.cells[i + 1];
      cell.textContent = c;
      cell.classList.toggle("chosen", answer !== null && c === answer.label);
    });
    fill(mean, answer && answer.p.map((sum) => sum / asked), columns, answer ? answer.label : -1);
    if (alone) {
      return;
    }
    members.forEach((row, k) => {
      const step = steps !== null && k < steps.length ? steps[k] : null;
      row.classList.toggle("unasked", answer !== null && k >= asked);
      row.classList.toggle("other", step !== null && answer !== null && k < asked && step.own.label !== answer.label);
      fill(row, step && step.own.p, columns, step ? step.own.label : -1);
    });
  };
}
