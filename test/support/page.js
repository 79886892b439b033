/* SPDX-License-Identifier: MIT */
/* What test/integration/page.sh puts into the page before its own script runs: it counts the requests and can change an answer;
   and what it asks of the page afterwards. */
'use strict';
const probe = {
  asked: 0, under: 0, most: 0, /* requests: made, under way, most of them at a time */
  doctor: null, /* changes an answer before the page sees it */
  loaded: Math.random(), /* another one after a reload */
  violations: [],
};
document.addEventListener('securitypolicyviolation', e => probe.violations.push(e.violatedDirective + ' ' + e.blockedURI));
const realFetch = window.fetch;
window.fetch = async (...args) => {
  probe.asked++;
  probe.most = Math.max(probe.most, ++probe.under);
  try {
    const answer = await realFetch(...args);
    if (answer.ok)
      probe.seen = await answer.clone().json();
    if (!probe.doctor)
      return answer;
    return new Response(JSON.stringify(probe.doctor(await answer.json())), {status: 200});
  } finally {
    probe.under--;
  }
};

/* Each figure as a person reads it, without the thousands' commas. */
probe.figures = () => Object.fromEntries([...document.querySelectorAll('[data-figure]')].map(n => [n.dataset.figure, n.textContent.replaceAll(',', '')]));
probe.state = () => document.getElementById('state').dataset.state;
probe.text = id => document.getElementById(id).textContent;

/* ---- contrast: WCAG 2's ratio of each piece of text to what lies behind it ---- */

const rgb = text => (text.match(/[\d.]+/g) || []).map(Number);
const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
function behind(n) {
  for (; n; n = n.parentElement) {
    const c = rgb(getComputedStyle(n).backgroundColor);
    if (c.length === 3 || c[3] > 0)
      return c;
  }
  return [255, 255, 255];
}
probe.faint = () => {
  const found = new Set();
  let seen = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const n = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !n.checkVisibility() || n.closest('script, style, noscript'))
      continue;
    const [a, b] = [luminance(rgb(getComputedStyle(n).color)), luminance(behind(n))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    seen++;
    if (!(ratio >= 4.5))
      found.add(`${ratio.toFixed(2)} "${walk.currentNode.data.trim().slice(0, 30)}" in ${n.tagName} ${n.className}`);
  }
  if (seen < 20)
    found.add(`only ${seen} pieces of text`);
  return [...found];
};
/* What is wider than the window. A part that scrolls by itself may be. */
probe.wide = () => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width)
    return [];
  return [`${document.documentElement.scrollWidth} of ${width}`, ...[...document.body.querySelectorAll('*')].filter(
    n => n.getBoundingClientRect().right > width + 1 && !n.closest('.scroll')).map(n => `${n.tagName} ${n.id} ${n.className}`).slice(0, 5)];
};

/* ---- answers that a quiet stack doesn't give ---- */

const LONG = '<img/src=x/onerror=window.owned=1>' + 'x'.repeat(157);
const BAD = '"><img src=x onerror="window.owned=1"><script>window.owned=1</script>&lt;b&gt; ';
probe.made = {
  stuck(d) {
    d.state = {name: 'stuck', since: d.now - 61000, reasons: ['partition 0 has lag and has not moved for 61 s', BAD + LONG]};
    d.partitions.push({id: 70, lag: 9007199254740991, settledTo: 9007199254740000, progressAgeMs: 123456789, paused: false, pausedSince: null, stopped: false},
      {id: 71, lag: null, settledTo: -1, progressAgeMs: 0, paused: false, pausedSince: null, stopped: true});
    d.dependencies.forEach(x => Object.assign(x, {up: false, latencyMs: null, detail: BAD + LONG}));
    for (const k of Object.keys(d.totals))
      d.totals[k] = 9007199254740991;
    Object.assign(d, {groupId: LONG, topic: BAD, version: BAD, clientId: LONG});
    d.decisions[BAD] = d.rejections[LONG] = d.alerts[BAD] = 7;
    for (const k of ['eventsPerSecond', 'lag', 'outboxPending', 'outboxAgeMs', 'commitP50Ms', 'commitP99Ms'])
      d.series[k] = Array.from({length: 300}, (_, i) => i % 7 ? 9e12 * i : null);
    d.lastAlerts = Array.from({length: 20}, () => ({at: d.now, kind: 'APP_BLOCK:' + LONG, familyId: 9007199254740991, customerId: 9007199254740991,
      eventId: LONG, partition: 99, offset: 9007199254740991}));
    d.lastRejections = Array.from({length: 20}, (_, i) => ({at: d.now - 9e7, code: 'POLICY_UNREADABLE', message: BAD + LONG, eventId: i % 2 ? null : LONG,
      partition: 99, offset: 9007199254740991}));
  },
  degraded(d) {
    d.state = {name: 'degraded', since: d.now - 1000, reasons: ['Redis is away']};
    d.dependencies.forEach(x => Object.assign(x, {up: false, detail: 'away'}));
    d.partitions.forEach(p => Object.assign(p, {paused: true, pausedSince: d.now - 9e7}));
    d.totals.logLinesLost = d.totals.publishFailed = 3;
  },
  starting(d) {
    d.state = {name: 'starting', since: d.now, reasons: ['no partition yet']};
    Object.assign(d, {partitions: [], decisions: {}, alerts: {}, rejections: {}, outbox: null, latency: {}, lastAlerts: [], lastRejections: []});
    d.totals = {};
    d.dependencies.forEach(x => Object.assign(x, {up: null, since: null}));
    d.series = {stepMs: 2000, endsAt: d.now};
  },
  stopping(d) {
    d.state = {name: 'stopping', since: d.now, reasons: []};
  },
  /* another version's answer, of which nothing is as it should be */
  bare(d) {
    for (const k of Object.keys(d))
      delete d[k];
  },
  ready(d) {
    d.state = {name: 'ready', since: d.now, reasons: []};
  },
};
/* Each of them in this window and theme: what can't be read, what is too wide, what became markup. */
probe.tryAll = () => {
  const found = [], markup = document.querySelectorAll('script').length;
  const look = name => {
    for (const [what, list] of [['faint', probe.faint()], ['wide', probe.wide()]])
      list.forEach(x => found.push(`${name}: ${what}: ${x}`));
    if (document.querySelector('img, b b, [onerror]') || document.querySelectorAll('script').length !== markup || window.owned)
      found.push(`${name}: text became markup`);
  };
  for (const [name, make] of Object.entries(probe.made)) {
    const d = structuredClone(probe.seen);
    make(d);
    show(d);
    look(name);
    if (name !== 'bare' && probe.state() !== name)
      found.push(`${name}: shows ${probe.state()}`);
  }
  showNoAnswer('a reason');
  look('no answer');
  show(probe.seen);
  return found;
};
