// Turns parts of the page into pictures, which need no style sheet.

import { SVG, element, svg } from './dom.js';
import { FAMILY, drawFigure, writeDecimal } from './figure.js';
import { palette, rampColour, signedColour } from './palette.js';
import { paint } from './strip.js';

/** Width of a drawing that stands alone, in pixels. */
export const WIDTH = 960;

/** Stands for href in a picture: the policy of the page allows no such image, but that of a file does. */
export const LATER = 'data-href';

const LEFT_OUT = 'details, .actions, .downloads, .notice, .unseen'; // Elements that a picture does not show.
const INKS = ['fill', 'stroke', 'stroke-width', 'paint-order', 'font-size', 'font-weight', 'text-anchor'];
const BASELINE = 0.81; // Of the height of a line of letters.
const SCALE_STEPS = 24;

/** Draws a part of the page as it is laid out: its words, lines, bars, stripes and drawings. */
export function pictureOf(part) {
  const frame = part.getBoundingClientRect();
  const [width, height] = [Math.ceil(frame.width), Math.ceil(frame.height)];
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const root = svg('svg', { xmlns: SVG, ...size, 'font-family': FAMILY });
  root.append(svg('rect', { width, height, fill: palette().paper }));
  const boxOf = ({ x, y, width, height }) => ({ x: x - frame.x, y: y - frame.y, width, height });
  const add = (node) => {
    if (node instanceof Text) root.append(...wordsIn(node, boxOf));
    if (!(node instanceof Element) || node.matches(LEFT_OUT) || !node.checkVisibility()) return;
    const { backgroundColor, borderBottomColor, borderBottomWidth, opacity } = getComputedStyle(node);
    const box = boxOf(node.getBoundingClientRect());
    const line = Number.parseFloat(borderBottomWidth);
    if (isOpaque(backgroundColor)) root.append(svg('rect', { ...box, fill: backgroundColor }));
    if (line > 0 && isOpaque(borderBottomColor))
      root.append(svg('rect', { ...box, y: box.y + box.height - line, height: line, fill: borderBottomColor }));
    if (node instanceof HTMLCanvasElement)
      root.append(svg('image', { ...box, opacity, [LATER]: node.toDataURL(), preserveAspectRatio: 'none', 'image-rendering': 'pixelated' }));
    if (node instanceof SVGSVGElement) root.append(inked(node, box));
    else node.childNodes.forEach(add);
  };
  add(part);
  return root;
}

const isOpaque = (colour) => colour.startsWith('rgb(');

/** Draws each word of a text where the browser has laid it out; a word of several lines, by letters. */
function wordsIn(node, boxOf) {
  const { color: fill, fontSize, fontWeight } = getComputedStyle(node.parentElement);
  const range = document.createRange();
  const drawn = ({ 0: word, index }) => {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const boxes = range.getClientRects();
    if (boxes.length > 1 && word.length > 1)
      return [...word.matchAll(/./gsu)].flatMap((letter) => drawn({ ...letter, index: index + letter.index }));
    const { x, y, height } = boxOf(boxes[0] ?? range.getBoundingClientRect());
    return [svg('text', { x, y: y + BASELINE * height, fill, 'font-size': fontSize, 'font-weight': fontWeight }, word)];
  };
  return [...node.data.matchAll(/\S+/g)].flatMap(drawn);
}

/** Copies a drawing, with the colours and letters that the style sheet gives it. */
function inked(drawing, box) {
  const copy = drawing.cloneNode(true);
  const copies = copy.querySelectorAll('*');
  drawing.querySelectorAll('*').forEach((node, index) => {
    if (node.hasAttribute('fill')) return;
    const style = getComputedStyle(node);
    for (const name of INKS) copies[index].setAttribute(name, style.getPropertyValue(name));
  });
  for (const [name, value] of Object.entries(box)) copy.setAttribute(name, value);
  return copy;
}

/** Returns the scale of a map's colours, from 0 or the smallest value to the largest one. */
export function scaleOf({ max, isSigned = false, write = writeDecimal }) {
  const colours = palette();
  const shares = Array.from({ length: SCALE_STEPS }, (_, step) => step / (SCALE_STEPS - 1));
  const colourOf = (share) => (isSigned ? signedColour(colours, 2 * share - 1) : rampColour(colours, share));
  const ramp = paint(element('canvas', { class: 'ramp', 'aria-hidden': 'true' }), [shares], colourOf);
  const [least, most] = [isSigned ? write(-max, 0) : '0', write(max, 0)];
  return element('p', { class: 'scale' }, element('span', { text: least }), ramp, element('span', { text: most }));
}

/** Draws a figure that stands alone, with lines above and below it. */
export function captioned(figure, { above, below }) {
  const lines = (texts) => texts.map((text) => element('p', { text }));
  const drawing = drawFigure(figure, palette(), WIDTH);
  const whole = element('div', { class: 'picture' }, ...lines(above), drawing, scaleOf(figure), ...lines(below));
  document.body.append(whole);
  const picture = pictureOf(whole);
  whole.remove();
  return picture;
}
