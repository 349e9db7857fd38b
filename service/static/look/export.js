// Downloads: the drawing as SVG and PNG, the numbers as npz.

import { ApiError, postForFile } from '../common/api.js';
import { element } from '../common/dom.js';
import { drawFigure } from '../common/figure.js';
import { palette } from '../common/palette.js';
import { speaker } from '../common/strings.js';
import { look } from '../strings/look.js';

const say = speaker(look);

const WIDTH = 960;
const SCALE = 2;

/** Returns a drawing with a caption as an SVG file. */
export function svgFile(figure, caption) {
  const drawing = drawFigure(figure, palette(), WIDTH, caption);
  drawing.querySelector('.cursor').remove();
  return new Blob([new XMLSerializer().serializeToString(drawing)], { type: 'image/svg+xml' });
}

/** Returns the drawing as a PNG file, with SCALE pixels for each CSS pixel. */
export async function pngFile(figure, caption) {
  const address = URL.createObjectURL(svgFile(figure, caption));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = element('canvas', { width: SCALE * image.width, height: SCALE * image.height });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
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

/** Returns the exact numbers of a request in NumPy's format. */
export function npzFile({ decimals: _, ...body }) {
  return postForFile('attention', { ...body, format: 'npz' });
}

/** Downloads a file in the browser. */
export function save(file, name) {
  const address = URL.createObjectURL(file);
  element('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 0);
}
