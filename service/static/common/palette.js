// The colours of drawings. They come from the style sheet, which defines both themes.

/** Returns the colours of the current theme. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    paper: colour('--paper'),
    soft: colour('--soft'),
    line: colour('--line'),
    ink: colour('--ink'),
    muted: colour('--muted'),
    accent: colour('--accent'),
    ramp: ['--heat-0', '--heat-1', '--heat-2', '--heat-3'].map((name) => channels(colour(name))),
    positive: channels(colour('--accent')),
    negative: channels(colour('--counter')),
    zero: channels(colour('--heat-0')),
  };
}

function channels(hex) {
  return [1, 3, 5].map((start) => Number.parseInt(hex.slice(start, start + 2), 16));
}

function mix(from, to, share) {
  return from.map((value, index) => Math.round(value + (to[index] - value) * share));
}

/** Returns the colour of a share from 0 to 1, as three channels. */
export function rampColour({ ramp }, share) {
  const place = Math.min(1, Math.max(0, share)) * (ramp.length - 1);
  const index = Math.min(ramp.length - 2, Math.floor(place));
  return mix(ramp[index], ramp[index + 1], place - index);
}

/** Returns the colour of a number from -1 to 1, as three channels. */
export function signedColour({ positive, negative, zero }, value) {
  return mix(zero, value < 0 ? negative : positive, Math.min(1, Math.abs(value)));
}

/** Formats a colour for CSS and SVG. */
export function hex(colour) {
  return `#${colour.map((value) => value.toString(16).padStart(2, '0')).join('')}`;
}

/** Reports whether black is easier to read on a colour than white. */
export function isLight([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}
