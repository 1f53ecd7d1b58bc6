"""JavaScript that runs inside the pages.

A page can interfere with it, since both share one world. Its results are shown to the agent and affect nothing outside
of the page.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FACTS", "GUARD", "MARK", "MARKED", "SCROLL", "SETTLED"]

GUARD: Final = """
(() => {
  const state = window.__turnwise = { leaving: '', submitted: null };
  if (window === window.top && window.navigation) {
    navigation.addEventListener('navigate', event => {
      if (!event.destination.sameDocument) state.leaving = event.destination.url || 'unknown';
    });
  }
  const here = element => {
    const target = (element.getAttribute('target') || '').toLowerCase();
    if (target && !['_self', '_top', '_parent'].includes(target)) element.setAttribute('target', '_self');
  };
  window.addEventListener('click', event => {
    for (const element of event.composedPath()) {
      if (element instanceof HTMLAnchorElement || element instanceof HTMLAreaElement) here(element);
    }
  }, true);
  window.addEventListener('submit', event => {
    here(event.target);
    if (event.submitter) event.submitter.removeAttribute('formtarget');
    if (event.target.method !== 'dialog') state.submitted = event;
  }, true);
  window.open = address => { if (address) location.href = address; return null; };
})()
"""
"""Runs in every document before its own scripts: records navigations, and opens links to new tabs in this one."""

MARK: Final = """
(() => {
  const listen = EventTarget.prototype.addEventListener;
  const clicks = ['click', 'mousedown', 'mouseup', 'pointerdown', 'pointerup'];
  EventTarget.prototype.addEventListener = function (type, ...rest) {
    const whole = this === document.body || this === document.documentElement;
    if (clicks.includes(type) && this instanceof Element && !whole) {
      this.setAttribute('data-turnwise', 'clicks');
      if (this instanceof HTMLSpanElement && !this.hasAttribute('role')) this.setAttribute('role', 'link');
    }
    return listen.call(this, type, ...rest);
  };
})()
"""
"""Runs in every document before its own scripts: marks elements with click listeners, and gives spans among them the
role "link", since some pages use empty boxes as buttons and plain text as links."""

MARKED: Final = "[data-turnwise], [onclick] { cursor: pointer }"
"""Style of elements with click listeners: the snapshot recognizes clickable elements by this cursor."""

SETTLED: Final = """
frozen => new Promise(resolve => {
  const answer = () => {
    const state = window.__turnwise || { leaving: '' };
    // A form is sent some time after its event, so the event is the first sign of it.
    const sent = state.submitted && !state.submitted.defaultPrevented ? 'a form' : '';
    const leaving = state.leaving || sent;
    state.leaving = '';
    state.submitted = null;
    resolve(location.protocol === 'chrome-error:' ? 'error' : leaving);
  };
  const twice = later => later(() => later(answer));
  if (!frozen) return twice(next => setTimeout(next, 0));
  twice(next => {
    const channel = new MessageChannel();
    channel.port1.onmessage = next;
    channel.port2.postMessage(0);
  });
})
"""
"""Argument: whether page time is frozen. Runs pending tasks, then returns the address that the page is navigating to,
"" if it stays, or "error" on the browser's error page."""

SCROLL: Final = """
([element, way]) => {
  const scrolled = element || document.scrollingElement || document.documentElement;
  const page = element ? element.clientHeight : window.innerHeight;
  scrolled.scrollTop += (way === 'down' ? 1 : -1) * Math.max(1, Math.floor(0.8 * page));
}
"""
"""Arguments: an element (null: the page) and "down" or "up". Scrolls by 80 % of the visible height."""

FACTS: Final = """
boxes => {
  const name = rect => [rect.x, rect.y, rect.width, rect.height].map(Math.round).join();
  const found = new Map();
  if (boxes.length) {
    for (const element of document.querySelectorAll('*')) {
      const key = name(element.getBoundingClientRect());
      if (found.has(key)) found.get(key).push(element); else found.set(key, [element]);
    }
  }
  const clipped = (element, x, y) => {
    if (x < 0 || y < 0 || x >= window.innerWidth || y >= window.innerHeight) return true;
    for (let outer = element.parentElement; outer; outer = outer.parentElement) {
      if (getComputedStyle(outer).overflow === 'visible') continue;
      const rect = outer.getBoundingClientRect();
      if (x < rect.left || y < rect.top || x > rect.right || y > rect.bottom) return true;
    }
    return false;
  };
  const lost = (element, x, y) => {
    if (x >= 0 && y >= 0 && x < window.innerWidth && y < window.innerHeight) return false;
    if (x + window.scrollX < 0 || y + window.scrollY < 0) return true;
    for (let outer = element; outer; outer = outer.parentElement) {
      if (getComputedStyle(outer).position === 'fixed') return true;
    }
    return false;
  };
  const over = element => {
    const rect = element.getClientRects()[0];
    if (!rect) return 'not visible';
    const x = rect.left + rect.width / 2, y = rect.top + rect.height / 2;
    if (lost(element, x, y)) return 'outside of the page';
    if (clipped(element, x, y)) return '';
    const hit = document.elementFromPoint(x, y);
    if (!hit || element === hit || element.contains(hit) || hit.contains(element)) return '';
    if ([...(element.labels || [])].some(label => label.contains(hit))) return '';
    const words = (hit.getAttribute('aria-label') || hit.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 40);
    return 'covered by ' + (words ? `"${words}"` : hit.tagName.toLowerCase());
  };
  const scroll = element => {
    const most = element.scrollHeight - element.clientHeight;
    const style = getComputedStyle(element).overflowY;
    if (most <= 1 || !(style === 'auto' || style === 'scroll' || element instanceof HTMLTextAreaElement)) return null;
    return [Math.round(element.scrollTop), most];
  };
  const wordless = ['button', 'submit', 'reset', 'checkbox', 'radio', 'file', 'image', 'hidden', 'color', 'range'];
  const field = element => element instanceof HTMLTextAreaElement
    || (element instanceof HTMLInputElement && !wordless.includes(element.type));
  const writable = element => !element.readOnly && !element.disabled && (element.isContentEditable || field(element));
  const page = document.scrollingElement || document.documentElement;
  return {
    url: location.href,
    title: document.title,
    top: Math.round(page.scrollTop),
    most: Math.max(0, page.scrollHeight - page.clientHeight),
    back: !!(window.navigation && navigation.canGoBack),
    boxes: boxes.map(box => {
      const elements = found.get(box.join()) || [];
      const covers = elements.map(over);
      return {
        over: covers.length && covers.every(Boolean) ? covers[covers.length - 1] : '',
        writable: elements.some(writable),
        scroll: elements.map(scroll).find(Boolean) || null,
      };
    }),
  };
}
"""
"""Argument: boxes of elements. Returns facts about the page and, for each box, why a click cannot reach its element
("" if it can, possibly after scrolling), whether it accepts text, and [scroll position, maximum] if it can scroll."""
