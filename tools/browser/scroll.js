([element, way]) => {
  const scrolled = element || document.scrollingElement || document.documentElement;
  const page = element ? element.clientHeight : window.innerHeight;
  scrolled.scrollTop += (way === 'down' ? 1 : -1) * Math.max(1, Math.floor(0.8 * page));
}
