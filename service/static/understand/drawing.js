// The Transformer as one drawing with the numbers of the sentence. Each part leads to its step.

import { short, topOf } from '../common/computation.js';
import { setAttribute } from '../common/dom.js';
import { WIDTH, saveButtons } from '../common/export.js';
import { FAMILY, svg } from '../common/figure.js';
import { palette } from '../common/palette.js';
import { DEFAULTS, toFragment } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { percent, spoken } from '../common/text.js';
import { drawing } from '../strings/drawing.js';
import { meanOf, mostOf } from './chapters/encoder.js';
import { chaptersOf, titleOf } from './chapters.js';

const say = speaker(drawing);

const [TOP, BODY, STEP] = [22, 132, 44]; // Pixels: the titles, the model, and a row of the head's parts.
const GAP = 14; // Pixels between the parts of the model, for the arrows.
const SHARES = [0.15, 0.15, 0.25, 0.24, 0.21]; // Parts of the width for the parts of the model.
const MIN_STEP = 58; // Pixels; narrower parts of the head are drawn in two rows.
const NEAR = 2; // Tokens that are shown before and after the followed one.
const LINE = 18;
const WIDE = 640; // Pixels; a narrower drawing has smaller letters.

/** The parts of one layer, in the order of the computation. */
const INSIDE = ['roles', 'scores', 'scale', 'mask', 'softmax', 'values', 'sum', 'heads', 'concat', 'norm', 'forward'];

/** The drawing; it is made anew for another width, theme or token. */
export class Drawing {
  #facts = null;
  #step = 'tokens';
  #width = 0;

  /** @param {function(string): void} choose Called with the step of a part that is clicked. */
  constructor(choose) {
    this.choose = choose;
    this.root = document.createElement('figure');
    this.root.className = 'drawing';
    document.addEventListener('themechange', () => this.#draw());
    new ResizeObserver(() => {
      if (this.root.clientWidth !== this.#width) this.#draw();
    }).observe(this.root);
  }

  /** Shows the numbers of a token. */
  show(facts) {
    this.#facts = facts;
    this.#draw();
  }

  /** Returns the buttons that save the drawing. */
  saveButtons() {
    return saveButtons(() => 'regard-transformer', () => drawModel(this.#facts, WIDTH));
  }

  /** Lights the part of a step. */
  light(step) {
    this.#step = step ?? 'tokens';
    for (const part of this.root.querySelectorAll('[data-part]')) {
      const isHere = part.getAttribute('data-part') === this.#step;
      setAttribute(part, 'aria-current', isHere && 'step');
      part.querySelector('rect')?.setAttribute('stroke-width', isHere ? '3' : '1');
    }
  }

  #draw() {
    this.#width = this.root.clientWidth;
    if (this.#facts === null || this.#width === 0) return;
    this.root.replaceChildren(drawModel(this.#facts, this.#width));
    for (const part of this.root.querySelectorAll('[data-part]'))
      part.addEventListener('click', (event) => {
        const { ctrlKey, metaKey, shiftKey } = /** @type {MouseEvent} */ (event);
        if (ctrlKey || metaKey || shiftKey) return;
        event.preventDefault();
        this.choose(part.getAttribute('data-part') ?? '');
      });
    this.light(this.#step);
  }
}

/** Draws the model for the numbers of a token, in a width in pixels. */
export function drawModel(facts, width) {
  const colours = palette();
  const rows = Math.ceil(INSIDE.length / Math.floor(width / MIN_STEP));
  const perRow = Math.ceil(INSIDE.length / rows);
  const height = TOP + BODY + 2 * LINE + rows * STEP;
  const root = svg('svg', {
    ...{ xmlns: 'http://www.w3.org/2000/svg', width, height, viewBox: `0 0 ${width} ${height}` },
    ...{ 'font-family': FAMILY, 'font-size': width < WIDE ? 10 : 12, role: 'group', 'aria-label': say('name') },
  });
  const pen = { root, letter: width < WIDE ? 4.9 : 6.4, colours, facts, links: new Set(chaptersOf(facts).map(({ name }) => name)) };
  root.append(svg('rect', { width: '100%', height: '100%', fill: colours.paper }));
  const room = width - GAP * (SHARES.length - 1);
  const sides = SHARES.map((share, index) => ({
    x: SHARES.slice(0, index).reduce((sum, other) => sum + other * room + GAP, 0) + 1,
    w: share * room - 2,
  }));
  [drawTokens, drawPosition, drawEncoder, drawDecoder, drawWords].forEach((draw, index) => {
    draw(pen, sides[index]);
    if (index > 0) arrow(pen, sides[index].x - GAP + 1, TOP + BODY / 2, GAP - 2);
  });
  drawInside(pen, width, perRow);
  return root;
}

/** Adds a part: a link to its step, with a frame, and its lines of text. */
function part({ root, letter, colours, facts, links }, name, box, lines = []) {
  const { x, y, w, h } = box;
  const isLink = links.has(name);
  const link = svg(isLink ? 'a' : 'g', isLink ? { 'data-part': name, 'aria-label': [titleOf(name, facts), ...lines.map(([text]) => text)].join(', ') } : {});
  if (isLink) link.setAttribute('href', `#${toFragment({ ...DEFAULTS, way: 'understand', step: name })}`);
  link.append(svg('rect', { x, y, width: w, height: h, rx: 4, fill: colours.soft, stroke: colours.accent }));
  lines.forEach(([text, isStrong = false], index) => {
    const place = { x: x + w / 2, y: y + (h / (lines.length + 1)) * (index + 1) + 4, 'text-anchor': 'middle' };
    link.append(svg('text', { ...place, fill: isStrong ? colours.accent : colours.ink, 'font-weight': isStrong ? 'bold' : 'normal' }, fit(text, w, letter)));
  });
  root.append(link);
  return link;
}

/** Cuts a text to a width in pixels. */
function fit(text, width, letter) {
  const most = Math.floor((width - 4) / letter);
  return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text;
}

function title({ root, letter, colours }, x, w, text) {
  root.append(svg('text', { x: x + w / 2, y: 14, 'text-anchor': 'middle', fill: colours.muted }, fit(text, w + GAP, letter)));
}

function arrow({ root, colours }, x, y, length) {
  const d = `M${x} ${y}h${length - 4}m-4 -4l5 4l-5 4`;
  root.append(svg('path', { d, fill: 'none', stroke: colours.muted, 'stroke-width': 1.5 }));
}

function drawTokens(pen, { x, w }) {
  const { tokens, token } = pen.facts;
  const first = Math.max(0, Math.min(token - NEAR, tokens.length - 2 * NEAR - 1));
  const near = tokens.slice(first, first + 2 * NEAR + 1);
  title(pen, x, w, say('tokens', { count: tokens.length }));
  part(pen, 'tokens', { x, y: TOP, w, h: BODY }, near.map((name, index) => [spoken(name), first + index === token]));
}

/** Draws the waves of the positions, which are added to the vector of the token. */
function drawPosition(pen, { x, w }) {
  const { token: own, position } = pen.facts.steps.block.embedding;
  title(pen, x, w, say('vector'));
  const link = part(pen, 'position', { x, y: TOP, w, h: BODY });
  const text = (y, words) => svg('text', { x: x + w / 2, y: TOP + y, 'text-anchor': 'middle', fill: pen.colours.ink }, fit(words, w, pen.letter));
  link.append(text(22, String(own.length)));
  if (!position) return;
  link.append(text(44, '+'));
  for (const [index, waves] of [4, 2, 1].entries()) {
    const y = TOP + 64 + index * 22;
    const half = (w - 12) / (2 * waves);
    const bends = Array.from({ length: waves }, () => `q${half / 2} -14 ${half} 0q${half / 2} 14 ${half} 0`);
    link.append(svg('path', { d: `M${x + 6} ${y}${bends.join('')}`, fill: 'none', stroke: pen.colours.accent, 'stroke-width': 1.5 }));
  }
}

/** Draws the layers of the encoder from below, each with the token at which the followed one looks most. */
function drawEncoder(pen, { x, w }) {
  const { encoder, tokens, token, layer } = pen.facts;
  title(pen, x, w, say('encoder', { count: encoder.length }));
  drawLayers(pen, 'encoder', { x, w }, encoder.map((heads) => mostOf(meanOf(heads.map((rows) => rows[token])), tokens)), layer);
}

function drawDecoder(pen, { x, w }) {
  const { cross, tokens, written } = pen.facts;
  title(pen, x, w, say('decoder', { count: cross.length }));
  drawLayers(pen, 'decoder', { x, w }, cross.map((heads) => mostOf(meanOf(heads.map((rows) => rows[written.place])), tokens)), written.layer);
}

function drawLayers(pen, name, { x, w }, looks, chosen) {
  const link = part(pen, name, { x, y: TOP, w, h: BODY });
  const h = BODY / looks.length;
  looks.forEach(({ token, share }, index) => {
    const y = TOP + BODY - (index + 1) * h;
    const here = index === chosen;
    link.append(svg('rect', { x: x + 3, y: y + 2, width: w - 6, height: h - 4, rx: 3, fill: pen.colours.paper, stroke: here ? pen.colours.accent : pen.colours.line }));
    if (h < 14) return;
    const text = say('layer', { layer: index + 1, token: spoken(token), share: percent(share) });
    link.append(svg('text', { x: x + w / 2, y: y + h / 2 + 4, 'text-anchor': 'middle', fill: pen.colours.ink, 'font-weight': here ? 'bold' : 'normal' }, fit(text, w - 6, pen.letter)));
  });
}

/** Draws the likeliest next tokens, as bars. */
function drawWords(pen, { x, w }) {
  const { item, written, pool } = pen.facts;
  const { likeliest } = item.probabilities;
  title(pen, x, w, say('words'));
  const h = pool ? BODY - 26 : BODY;
  const link = part(pen, 'words', { x, y: TOP, w, h });
  const row = h / likeliest.tokens[written.place].length;
  likeliest.tokens[written.place].forEach((token, index) => {
    const share = Math.exp(likeliest.log_probs[written.place][index]);
    const y = TOP + index * row;
    link.append(svg('rect', { x: x + 4, y: y + row - 6, width: Math.max(1, (w - 8) * share), height: 3, fill: pen.colours.accent }));
    const isTaken = token === item.target.tokens[written.place];
    link.append(svg('text', { x: x + 4, y: y + row - 9, fill: pen.colours.ink, 'font-weight': isTaken ? 'bold' : 'normal' }, fit(`${spoken(token)} ${percent(share)}`, w, pen.letter)));
  });
  if (pool) part(pen, 'pool', { x, y: TOP + BODY - 22, w, h: 22 }, [[titleOf('pool', pen.facts)]]);
}

/** Draws the parts of the head and the layer of the story, each with a number. */
function drawInside(pen, width, perRow) {
  const { steps, layer, head, encoder } = pen.facts;
  const top = topOf(steps);
  const { size } = { size: steps.head_dim };
  const numbers = {
    ...{ scores: short(top.score), scale: short(top.scaled), mask: say('none'), softmax: percent(top.weight) },
    ...{ roles: `3 × ${size}`, values: `${percent(top.weight)} · v`, sum: `${size}`, heads: `${encoder[layer].length}` },
    ...{ concat: `${steps.output.concatenated.length}`, norm: 'x +' },
  };
  const y = TOP + BODY + LINE + 8;
  const words = say('inside', { layer: layer + 1, head: head + 1, token: spoken(steps.query.token), most: spoken(top.token) });
  pen.root.append(svg('text', { x: 1, y: y - 8, fill: pen.colours.muted }, fit(words, width, pen.letter)));
  const w = width / perRow;
  INSIDE.forEach((name, index) => {
    const box = { x: (index % perRow) * w + 2, y: y + Math.floor(index / perRow) * STEP, w: w - 5, h: STEP - 6 };
    const link = part(pen, name, box, [[say(`part_${name}`, { size })], [numbers[name] ?? '', true]]);
    if (name !== 'forward') return;
    const bend = `M${box.x + box.w / 2 - 16} ${box.y + 30}h16l12 -10`; // Its non-linearity.
    link.append(svg('path', { d: bend, fill: 'none', stroke: pen.colours.accent, 'stroke-width': 2 }));
  });
}
