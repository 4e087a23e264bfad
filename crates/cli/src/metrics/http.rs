//! HTTP for scrapers: one answer to one request, and then the connection is closed.
//!
//! However many clients connect and keep silent, the next one is answered: when there are too many, the oldest is
//! disconnected.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use millstream::meter::prometheus;

/// How long a connection lives.
const LONGEST: Duration = Duration::from_secs(5);

/// How long a client may take to send its request's head.
const LONGEST_HEAD: Duration = Duration::from_secs(2);

/// The most connections at once. Another one replaces an old one.
const MOST: usize = 16;

/// The most bytes of a request's head.
const MOST_BYTES: usize = 8 << 10;

const MOST_HEADERS: usize = 64;

/// Answers requests for `/metrics` with `text`, forever.
pub(super) async fn serve(listener: TcpListener, text: impl Fn() -> String + Send + Sync + 'static) {
    let text = Arc::new(text);
    // The connected clients, the oldest first.
    let mut clients = VecDeque::<AbortHandle>::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files. Some of them may be closed soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        clients.retain(|client| !client.is_finished());
        if clients.len() == MOST {
            clients.pop_front().inspect(AbortHandle::abort);
        }
        let text = text.clone();
        // A client that is too slow, or has gone away, gets no answer.
        let connection = async move { tokio::time::timeout(LONGEST, connection(stream, &*text)).await };
        clients.push_back(tokio::spawn(connection).abort_handle());
    }
}

async fn connection(stream: TcpStream, text: &(dyn Fn() -> String + Send + Sync)) -> std::io::Result<()> {
    let answer = service_fn(|request| ready(Ok::<_, Infallible>(answer(&request, text))));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .keep_alive(false)
        .title_case_headers(true)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_BYTES)
        .serve_connection(TokioIo::new(stream), answer);
    // A request that is not HTTP is answered, and is an error afterwards.
    let _ = poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let mut stream = connection.into_parts().io.into_inner();
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection, and lose the answer.
    tokio::io::copy(&mut (&mut stream).take(1 << 20), &mut tokio::io::sink()).await?;
    Ok(())
}

fn answer<B>(request: &Request<B>, text: &(dyn Fn() -> String + Send + Sync)) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => response(StatusCode::OK, prometheus::CONTENT_TYPE, text()),
        (_, "/metrics") => {
            let mut response = problem(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            response
        }
        _ => problem(StatusCode::NOT_FOUND),
    }
}

fn problem(status: StatusCode) -> Response<Full<Bytes>> {
    let reason = status.canonical_reason().unwrap_or_default();
    response(status, "text/plain; charset=utf-8", format!("{reason}; metrics are at /metrics\n"))
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
