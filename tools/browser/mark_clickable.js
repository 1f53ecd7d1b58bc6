(() => {
  const listen = EventTarget.prototype.addEventListener;
  const clicks = ['click', 'mousedown', 'mouseup', 'pointerdown', 'pointerup'];
  EventTarget.prototype.addEventListener = function (type, ...rest) {
    const whole = this === document.body || this === document.documentElement;
    if (clicks.includes(type) && this instanceof Element && !whole) {
      this.setAttribute('data-turncredit', 'clicks');
      if (this instanceof HTMLSpanElement && !this.hasAttribute('role')) this.setAttribute('role', 'link');
    }
    return listen.call(this, type, ...rest);
  };
})()
