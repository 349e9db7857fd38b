// The browser's storage, which some readers have switched off.

/** Returns a kept value, or the empty text. */
export function kept(name) {
  try {
    return localStorage.getItem(name) ?? '';
  } catch {
    return ''; // Without storage a choice lasts as long as the page.
  }
}

/** Keeps a value for later visits; reports whether the browser allows it. */
export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
    return true;
  } catch {
    return false;
  }
}
