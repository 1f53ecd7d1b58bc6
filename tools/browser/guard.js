(() => {
  const state = window.__turncredit = { leaving: '', submitted: null };
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
