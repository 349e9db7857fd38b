// Draws a vector as a strip of colours: one cell a number, in the accent colour above 0, grey below.

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

/**
 * Draws a strip.
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
  const image = new ImageData(vector.length, 1);
  const colours = palette();
  vector.forEach((value, index) => {
    image.data.set([...signedColour(colours, value / scale), 255], 4 * index);
  });
  Object.assign(canvas, { width: vector.length, height: 1 });
  canvas.style.setProperty('--numbers', String(vector.length));
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  return canvas;
}
