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
    const words = (hit.getAttribute('aria-label') || hit.textContent || '').trim().replace(/\s+/g, ' ').slice(0, 40);
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
