// Draws a vector as a strip of colours: one cell a number, in the accent colour above 0, grey below.

import { element } from './dom.js';
import { palette, signedColour } from './palette.js';
import { decimal } from './text.js';

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
  const range = `from ${decimal(Math.min(...vector))} to ${decimal(Math.max(...vector))}`;
  const label = `${name}: ${vector.length} numbers ${range}`;
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
  canvas.style.setProperty('--numbers', vector.length);
  canvas.getContext('2d').putImageData(image, 0, 0);
  return canvas;
}
