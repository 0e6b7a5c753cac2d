// What is asked again and again, or followed, while the page is visible.

// One question at a time. `ask` gets an AbortSignal; `onerror` the error of a question that failed, after which the next comes in its time.
// Returns the function that asks at once.
export function poll(periodMs, ask, signal, onerror = () => {}) {
  let timer = 0;
  let running = false;
  let again = false;

  async function run() {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await ask(signal);
    } catch (error) {
      if (!signal.aborted) onerror(error);
    } finally {
      running = false;
    }
    if (signal.aborted) return;
    if (again) {
      again = false;
      run();
    } else if (!document.hidden) {
      timer = setTimeout(run, periodMs);
    }
  }

  const onVisible = () => (document.hidden ? clearTimeout(timer) : run());
  document.addEventListener("visibilitychange", onVisible, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  if (!document.hidden) timer = setTimeout(run, periodMs);
  return run;
}

// A stream that is open while somebody looks. open(signal): opens it, until that signal is aborted. Returns the function
// that opens it again.
export function whileVisible(signal, open) {
  let stream = null;
  const close = () => stream?.abort();
  const start = () => {
    close();
    stream = new AbortController();
    open(stream.signal);
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : start()), { signal });
  signal.addEventListener("abort", close, { once: true });
  start();
  return start;
}
