frozen => new Promise(resolve => {
  const answer = () => {
    const state = window.__turncredit || { leaving: '' };
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
