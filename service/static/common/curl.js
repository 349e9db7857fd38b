// Curl commands that repeat the page's requests.

import { addressOf } from './api.js';
import { makeCopy } from './copy.js';
import { within } from './dom.js';

/** Quotes a word for a POSIX shell, which takes single-quoted text literally. */
export function shellQuoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Returns a curl command, on three lines, that posts a JSON body. */
export function curlCommand(path, body) {
  return [
    `curl ${shellQuoted(addressOf(path))}`,
    `-H 'Content-Type: application/json'`,
    `-d ${shellQuoted(JSON.stringify(body))}`,
  ].join(' \\\n  ');
}

/** A command that can be unfolded and copied; it is hidden until a request was made. */
export class CurlLine {
  /** @param {HTMLDetailsElement} root With a `code` and a `button` in it. */
  constructor(root) {
    this.root = root;
    this.code = within(root, 'code');
    makeCopy(within(root, 'button'), () => this.code.textContent ?? '');
  }

  /** Shows the command for a request that was just made. */
  show(path, body) {
    this.code.textContent = curlCommand(path, body);
    this.root.hidden = false;
  }

  /** Hides the command. */
  hide() {
    this.root.hidden = true;
  }
}
