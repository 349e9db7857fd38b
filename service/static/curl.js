// The command that repeats a request.

import { addressOf } from './api.js';
import { makeCopy } from './copy.js';

/** A word as a POSIX shell reads it back: nothing within single quotes means anything else. */
export function shellQuoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A curl command, on three lines, for a POST of a JSON body. */
export function curlCommand(path, body) {
  return [
    `curl ${shellQuoted(addressOf(path))}`,
    `-H 'Content-Type: application/json'`,
    `-d ${shellQuoted(JSON.stringify(body))}`,
  ].join(' \\\n  ');
}

/** A command that can be unfolded and copied; hidden until there is one. */
export class CurlLine {
  /** @param {HTMLDetailsElement} root With a `code` and a `button` in it. */
  constructor(root) {
    this.root = root;
    this.code = root.querySelector('code');
    makeCopy(root.querySelector('button'), () => this.code.textContent);
  }

  /** Shows the command for a request that was just made. */
  show(path, body) {
    this.code.textContent = curlCommand(path, body);
    this.root.hidden = false;
  }

  /** There is nothing to repeat. */
  hide() {
    this.root.hidden = true;
  }
}
