// Curl commands that repeat the page's requests.

import { addressOf } from './api.js';
import { page } from '../strings/page.js';
import { makeCopy } from './copy.js';
import { element } from './dom.js';
import { speaker } from './strings.js';

const say = speaker(page);

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
  /** @param {HTMLDetailsElement} root Empty element. */
  constructor(root) {
    this.root = root;
    this.code = element('code');
    const copy = element('button', { type: 'button', class: 'quiet', text: say('copyCommand') });
    const command = element('pre', { tabindex: '0', 'aria-label': say('command') }, this.code);
    root.replaceChildren(element('summary', { text: say('asCurl') }), command, copy);
    makeCopy(copy, () => this.code.textContent ?? '');
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
