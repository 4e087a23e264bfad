//! Runtimes that tests outside of one run futures on.

use tokio::runtime::Builder;

/// Two threads, with timers and the network.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(future)
}

/// Two threads, without timers and the network: what is local needs neither.
pub(crate) fn block_on_bare<F: Future>(future: F) -> F::Output {
    Builder::new_multi_thread().worker_threads(2).build().expect("a runtime").block_on(future)
}

/// This thread alone, without timers and the network.
pub(crate) fn block_on_here<F: Future>(future: F) -> F::Output {
    Builder::new_current_thread().build().expect("a runtime").block_on(future)
}
