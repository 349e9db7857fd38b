// Draws numbers as pixels, one a number: small pictures of matrices, and strips of vectors.

import { common } from '../strings/common.js';
import { element } from './dom.js';
import { palette, signedColour } from './palette.js';
import { speaker } from './strings.js';
import { decimal } from './text.js';

const say = speaker(common);

/** Returns the largest absolute value, above 0. */
export function scaleOf(vectors) {
  return Math.max(1e-9, ...vectors.flat().map(Math.abs));
}

/** Draws one pixel a number; the style sheet enlarges them. */
export function paint(canvas, rows, colourOf) {
  const image = new ImageData(rows[0].length, rows.length);
  rows.flat().forEach((value, index) => image.data.set([...colourOf(value), 255], 4 * index));
  Object.assign(canvas, { width: rows[0].length, height: rows.length });
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Draws a strip: blue above 0, grey below.
 * @param {number[]} vector
 * @param {number} scale Absolute value of the full colour.
 * @param {string} name Description for screen readers.
 */
export function strip(vector, scale, name) {
  const [least, most] = [decimal(Math.min(...vector)), decimal(Math.max(...vector))];
  const label = say('numbers', { name, count: vector.length, least, most });
  const canvas = element('canvas', {
    class: 'strip',
    role: 'img',
    'aria-label': label,
    title: label,
  });
  const colours = palette();
  canvas.style.setProperty('--numbers', String(vector.length));
  return paint(canvas, [vector], (value) => signedColour(colours, value / scale));
}
