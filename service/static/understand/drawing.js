// The Transformer as one drawing with the numbers of the sentence. Each part leads to its step.

import { short, topOf } from '../common/computation.js';
import { SVG, setAttribute, svg } from '../common/dom.js';
import { saveButtons } from '../common/export.js';
import { BOLD, FAMILY, FONT, textWidth } from '../common/figure.js';
import { palette } from '../common/palette.js';
import { WIDTH } from '../common/picture.js';
import { DEFAULTS, toFragment } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { percent, spoken } from '../common/text.js';
import { drawing } from '../strings/drawing.js';
import { mostOf } from './chapters/encoder.js';
import { chaptersOf, titleOf } from './chapters.js';

const say = speaker(drawing);

const TOP = 22; // Pixels; the titles.
/** Sizes in pixels: the letters, the model, and a row of the head's parts. */
const [WIDE, NARROW] = [{ font: 12, body: 132, step: 44 }, { font: 10, body: 96, step: 34 }];
const GAP = 14; // Pixels between the parts of the model, for the arrows.
const SHARES = [0.15, 0.15, 0.25, 0.24, 0.21]; // Parts of the width for the parts of the model.
const MIN_STEP = 58; // Pixels; narrower parts of the head are drawn in two rows.
const NEAR = 2; // Tokens that are shown before and after the followed one.
const LINE = 26; // Pixels; the line above the head's parts.
const [NARROW_BELOW, MIN_NAMED] = [640, 120]; // Pixels; of the drawing, and of a layer that names its head.

/** The parts of one layer, in the order of the computation. */
const INSIDE = ['roles', 'scores', 'scale', 'mask', 'softmax', 'values', 'sum', 'heads', 'concat', 'norm', 'forward'];

/** The drawing; it is made anew for another width, theme or token. */
export class Drawing {
  /** @type {any} */
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
    return saveButtons(() => 'regard-transformer', () => drawModel(this.#shown, WIDTH), say('save'));
  }

  /** Lights the part of a step. */
  light(step) {
    const wasPool = this.#step === 'pool';
    this.#step = step ?? 'tokens';
    if (wasPool !== (this.#step === 'pool')) this.#draw();
    for (const part of this.root.querySelectorAll('[data-part]')) {
      const isHere = part.getAttribute('data-part') === this.#step;
      setAttribute(part, 'aria-current', isHere && 'step');
      part.querySelector('rect')?.setAttribute('stroke-width', isHere ? '3' : '1');
    }
  }

  /** The numbers of the sentence; at the step about another sentence, those of that one. */
  get #shown() {
    const { pool } = this.#facts;
    return this.#step === 'pool' && pool ? { ...pool.drawn, pool } : this.#facts;
  }

  #draw() {
    this.#width = this.root.clientWidth;
    if (this.#facts === null || this.#width === 0) return;
    this.root.replaceChildren(drawModel(this.#shown, this.#width));
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
  const sizes = width < NARROW_BELOW ? NARROW : WIDE;
  const { font, body, step } = sizes;
  const height = TOP + body + LINE + rows * step;
  const root = svg('svg', {
    ...{ xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` },
    ...{ 'font-family': FAMILY, 'font-size': font, role: 'group', 'aria-label': say('name') },
  });
  const pen = { root, ...sizes, colours, facts, links: new Set(chaptersOf(facts).map(({ name }) => name)) };
  root.append(svg('rect', { width: '100%', height: '100%', fill: colours.paper }));
  const room = width - GAP * (SHARES.length - 1);
  const sides = SHARES.map((share, index) => ({
    x: SHARES.slice(0, index).reduce((sum, other) => sum + other * room + GAP, 0) + 1,
    w: share * room - 2,
  }));
  [drawTokens, drawPosition, drawEncoder, drawDecoder, drawWords].forEach((draw, index) => {
    draw(pen, sides[index]);
    if (index > 0) arrow(pen, sides[index].x - GAP + 1, TOP + body / 2, GAP - 2);
  });
  drawInside(pen, width, perRow);
  return root;
}

/** Adds a part: a link to its step, with a frame, and its lines of text. */
function part(pen, name, box, lines = []) {
  const { root, colours, facts, links } = pen;
  const { x, y, w, h } = box;
  const isLink = links.has(name);
  const link = svg(isLink ? 'a' : 'g', isLink ? { 'data-part': name, 'aria-label': [titleOf(name, facts), ...lines.map(([text]) => text)].join(', ') } : {});
  if (isLink) link.setAttribute('href', `#${toFragment({ ...DEFAULTS, way: 'understand', step: name })}`);
  link.append(svg('rect', { x, y, width: w, height: h, rx: 4, fill: colours.soft, stroke: colours.accent }));
  lines.forEach(([text, isStrong = false], index) => {
    const ink = isStrong ? { fill: colours.accent, 'font-weight': 'bold' } : {};
    link.append(line(pen, text, x + w / 2, y + (h / (lines.length + 1)) * (index + 1) + 4, w - 4, ink));
  });
  root.append(link);
  return link;
}

/** Writes a line around a place; one that is wider than its room is squeezed. */
function line({ font, colours }, text, x, y, room, attributes = {}) {
  const width = (textWidth(text) * font * (attributes['font-weight'] === 'bold' ? BOLD : 1)) / FONT;
  const squeezed = width > room ? { textLength: room, lengthAdjust: 'spacingAndGlyphs' } : {};
  return svg('text', { x, y, 'text-anchor': 'middle', fill: colours.ink, ...squeezed, ...attributes }, text);
}

function title(pen, x, w, text) {
  pen.root.append(line(pen, text, x + w / 2, 14, w, { fill: pen.colours.muted }));
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
  part(pen, 'tokens', { x, y: TOP, w, h: pen.body }, near.map((name, index) => [spoken(name), first + index === token]));
}

/** Draws the waves of the positions, which are added to the vector of the token. */
function drawPosition(pen, { x, w }) {
  const { token: own, position } = pen.facts.steps.block.embedding;
  title(pen, x, w, say('vector'));
  const link = part(pen, 'position', { x, y: TOP, w, h: pen.body });
  const sixth = pen.body / 6;
  link.append(line(pen, String(own.length), x + w / 2, TOP + sixth, w));
  if (!position) return;
  link.append(line(pen, '+', x + w / 2, TOP + 2 * sixth, w));
  for (const [index, waves] of [4, 2, 1].entries()) {
    const y = TOP + (3 + index) * sixth;
    const half = (w - 12) / (2 * waves);
    const bends = Array.from({ length: waves }, () => `q${half / 2} -14 ${half} 0q${half / 2} 14 ${half} 0`);
    link.append(svg('path', { d: `M${x + 6} ${y}${bends.join('')}`, fill: 'none', stroke: pen.colours.accent, 'stroke-width': 1.5 }));
  }
}

function drawEncoder(pen, side) {
  const { encoder, token, layer, head } = pen.facts;
  drawLayers(pen, 'encoder', side, encoder, { layer, head, row: token });
}

function drawDecoder(pen, side) {
  const { cross, written: { layer, head, place } } = pen.facts;
  drawLayers(pen, 'decoder', side, cross, { layer, head, row: place });
}

/** Draws layers from below; that of the story's head says where the head looks most. */
function drawLayers(pen, name, { x, w }, layers, { layer, head, row }) {
  title(pen, x, w, say(name, { count: layers.length }));
  const link = part(pen, name, { x, y: TOP, w, h: pen.body });
  const h = pen.body / layers.length;
  const { token, share } = mostOf(layers[layer][head][row], pen.facts.tokens);
  layers.forEach((_, index) => {
    const y = TOP + pen.body - (index + 1) * h;
    const here = index === layer;
    link.append(svg('rect', { x: x + 3, y: y + 2, width: w - 6, height: h - 4, rx: 3, fill: pen.colours.paper, stroke: here ? pen.colours.accent : pen.colours.line }));
    if (h < 14) return;
    const values = { layer: layer + 1, head: head + 1, look: `${spoken(token)} ${percent(share)}` };
    const text = here ? say(w < MIN_NAMED ? 'layerShort' : 'layer', values) : String(index + 1);
    link.append(line(pen, text, x + w / 2, y + h / 2 + 4, w - 10, { 'font-weight': here ? 'bold' : 'normal' }));
  });
}

/** Draws the likeliest next tokens, as bars. */
function drawWords(pen, { x, w }) {
  const { item, written, pool } = pen.facts;
  const { likeliest } = item.probabilities;
  title(pen, x, w, say('words'));
  const h = pool ? pen.body - 26 : pen.body;
  const link = part(pen, 'words', { x, y: TOP, w, h });
  const row = h / likeliest.tokens[written.place].length;
  likeliest.tokens[written.place].forEach((token, index) => {
    const share = Math.exp(likeliest.log_probs[written.place][index]);
    const y = TOP + index * row;
    link.append(svg('rect', { x: x + 4, y: y + row - 6, width: Math.max(1, (w - 8) * share), height: 3, fill: pen.colours.accent }));
    const isTaken = token === item.target.tokens[written.place];
    const ink = { 'text-anchor': 'start', 'font-weight': isTaken ? 'bold' : 'normal' };
    link.append(line(pen, `${spoken(token)} ${percent(share)}`, x + 4, y + row - 9, w - 8, ink));
  });
  if (pool) part(pen, 'pool', { x, y: TOP + pen.body - 22, w, h: 22 }, [[titleOf('pool', pen.facts)]]);
}

/** Draws the parts of the head and the layer of the story, each with a number. */
function drawInside(pen, width, perRow) {
  const { steps, layer, head, encoder } = pen.facts;
  const top = topOf(steps);
  const { head_dim: size } = steps;
  const numbers = {
    ...{ scores: short(top.score), scale: short(top.scaled), mask: say('none'), softmax: percent(top.weight) },
    ...{ roles: `3 × ${size}`, values: `${percent(top.weight)} · v`, sum: `${size}`, heads: `${encoder[layer].length}` },
    ...{ concat: `${steps.output.concatenated.length}`, norm: 'x +' },
  };
  const y = TOP + pen.body + LINE;
  const words = say('inside', { layer: layer + 1, head: head + 1, token: spoken(steps.query.token), most: spoken(top.token) });
  pen.root.append(line(pen, words, 1, y - 8, width, { 'text-anchor': 'start', fill: pen.colours.muted }));
  const w = width / perRow;
  INSIDE.forEach((name, index) => {
    const box = { x: (index % perRow) * w + 2, y: y + Math.floor(index / perRow) * pen.step, w: w - 5, h: pen.step - 6 };
    const link = part(pen, name, box, [[say(`part_${name}`, { size })], [numbers[name] ?? '', true]]);
    if (name !== 'forward') return;
    const bend = `M${box.x + box.w / 2 - 16} ${box.y + 0.8 * box.h}h16l12 -${0.25 * box.h}`; // Its non-linearity.
    link.append(svg('path', { d: bend, fill: 'none', stroke: pen.colours.accent, 'stroke-width': 2 }));
  });
}
