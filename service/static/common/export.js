// Saves drawings as SVG and PNG files.

import { look } from '../strings/look.js';
import { ApiError } from './api.js';
import { element } from './dom.js';
import { Notice } from './notice.js';
import { LATER } from './picture.js';
import { speaker } from './strings.js';

const say = speaker(look);

const SCALE = 2;

/** Returns a drawing as an SVG file. */
export function svgFile(drawing) {
  const written = new XMLSerializer().serializeToString(drawing).replaceAll(`${LATER}=`, 'href=');
  return new Blob([written], { type: 'image/svg+xml' });
}

/** Returns a drawing as a PNG file, with SCALE pixels for each CSS pixel. */
export async function pngFile(drawing) {
  const address = URL.createObjectURL(svgFile(drawing));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = element('canvas', { width: SCALE * image.width, height: SCALE * image.height });
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const file = await new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
    if (file === null) throw tooLarge(canvas);
    return file;
  } finally {
    URL.revokeObjectURL(address);
  }
}

function tooLarge({ width, height }) {
  return new ApiError(say('pngTooLarge', { width, height }), { type: 'too_large' });
}

/** Downloads a file in the browser. */
export function save(file, name) {
  const address = URL.createObjectURL(file);
  element('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 0);
}

/**
 * Creates the buttons that save a figure as PNG and as SVG.
 * @param {function(): string} name Returns the name of the file.
 * @param {function(): Element} draw Returns the drawing.
 * @param {string} words The label before the buttons.
 */
export function saveButtons(name, draw, words = say('download')) {
  const notice = new Notice();
  const button = (kind, label, make) => {
    const onclick = async () => {
      try {
        save(await make(draw()), `${name()}.${kind}`);
        notice.hide();
      } catch (error) {
        notice.show(/** @type {ApiError} */ (error), onclick);
      }
    };
    return element('button', { type: 'button', class: 'quiet', text: kind.toUpperCase(), 'aria-label': label, 'data-kind': kind, onclick });
  };
  const buttons = [button('png', say('downloadPng'), pngFile), button('svg', say('downloadSvg'), svgFile)];
  return element('div', {}, element('p', { class: 'downloads' }, words, ' ', ...buttons), notice.root);
}
