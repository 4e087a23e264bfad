//! Who asks the program to stop.

use tokio_stream::Stream;

/// Ready when somebody asks the program to stop.
pub(super) async fn requested() {
    use tokio_stream::StreamExt;
    match requests() {
        Ok(mut requests) => drop(requests.next().await),
        // Without a handler the system's own remains: it stops at once.
        Err(_) => std::future::pending().await,
    }
}

/// An item for each Ctrl-C, and for each SIGTERM, which schedulers send that take a machine away.
#[cfg(unix)]
pub(super) fn requests() -> std::io::Result<impl Stream<Item = ()> + Unpin> {
    use tokio::signal::unix::{SignalKind, signal};
    use tokio_stream::StreamExt;
    use tokio_stream::wrappers::SignalStream;
    let interrupts = SignalStream::new(signal(SignalKind::interrupt())?);
    Ok(interrupts.merge(SignalStream::new(signal(SignalKind::terminate())?)))
}

/// An item for each Ctrl-C.
#[cfg(windows)]
pub(super) fn requests() -> std::io::Result<impl Stream<Item = ()> + Unpin> {
    Ok(tokio_stream::wrappers::CtrlCStream::new(tokio::signal::windows::ctrl_c()?))
}
