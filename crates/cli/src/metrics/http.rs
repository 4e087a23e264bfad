//! HTTP for scrapers: one answer to one request, and then the connection is closed.
//!
//! However many clients connect and keep silent, the next one is answered: when there are too many, the client that has
//! been silent for longest is disconnected.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, poll_fn, ready};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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

/// The most headers of a request.
const MOST_HEADERS: usize = 64;

/// Answers requests for `/metrics` with `text`, forever.
pub(super) fn serve(
    listener: TcpListener,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let (text, mut guests) = (Arc::new(text), Guests::default());
    async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::warn!(%error, "metrics cannot be served"),
        };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files. Some of them may be closed soon.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            guests.make_room();
            let (text, has_asked) = (text.clone(), Arc::new(AtomicBool::new(false)));
            let asked = has_asked.clone();
            let task = tokio::spawn(async move {
                // A client that is too slow, or has gone away, gets no answer.
                let _ = tokio::time::timeout(LONGEST, connection(stream, &*text, &asked)).await;
            });
            guests.0.push_back(Guest { task: task.abort_handle(), has_asked });
        }
    }
}

/// The connected clients, the oldest first.
#[derive(Default)]
struct Guests(VecDeque<Guest>);

/// A connected client.
struct Guest {
    task: AbortHandle,
    /// Whether its request has come.
    has_asked: Arc<AtomicBool>,
}

impl Guests {
    /// Makes room for one more: disconnects the client that has been silent for longest, or the oldest if none is silent.
    fn make_room(&mut self) {
        self.0.retain(|guest| !guest.task.is_finished());
        if self.0.len() < MOST {
            return;
        }
        let silent = self.0.iter().position(|guest| !guest.has_asked.load(Relaxed));
        if let Some(guest) = self.0.remove(silent.unwrap_or(0)) {
            guest.task.abort();
        }
    }
}

async fn connection(
    stream: TcpStream,
    text: &(dyn Fn() -> String + Send + Sync),
    has_asked: &AtomicBool,
) -> std::io::Result<()> {
    let answer = service_fn(|request| {
        has_asked.store(true, Relaxed);
        ready(Ok::<_, Infallible>(answer(&request, text)))
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_metrics_is_answered_with_them() {
        let status = |method: Method, uri: &str| {
            let request = Request::builder().method(method).uri(uri).body(()).expect("a request");
            answer(&request, &|| "x 1\n".to_owned()).status().as_u16()
        };
        assert_eq!(status(Method::GET, "/metrics"), 200);
        assert_eq!(status(Method::GET, "/metrics?name=x"), 200);
        assert_eq!(status(Method::POST, "/metrics"), 405);
        assert_eq!(status(Method::GET, "/"), 404);
        assert_eq!(status(Method::GET, "/metrics/x"), 404);
    }

    #[tokio::test]
    async fn whoever_sends_something_else_is_told_so() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a setting");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(serve(listener, || "x 1\n".to_owned()));
        let status = async |request: &str| {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(request.as_bytes()).await.expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            answer.lines().next().expect("a line").to_owned()
        };
        assert_eq!(status("GET /metrics HTTP/1.0\r\n\r\n").await, "HTTP/1.0 200 OK");
        assert_eq!(status("\u{0}\u{1}\r\n\r\n").await, "HTTP/1.1 400 Bad Request");
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(status(&many).await, "HTTP/1.1 431 Request Header Fields Too Large");
        let long = format!("GET /metrics HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(MOST_BYTES));
        assert_eq!(status(&long).await, "HTTP/1.1 431 Request Header Fields Too Large");
        server.abort();
    }
}
