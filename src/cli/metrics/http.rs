//! As much of HTTP as a scraper needs: one answer to one request, and then the connection is closed.

use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use httparse::{EMPTY_HEADER, Request, Status};
use millstream::meter::prometheus::CONTENT_TYPE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How long a connection lives.
const LONGEST: Duration = Duration::from_secs(5);

/// How many connections are answered at once; the others are closed.
const MOST: usize = 16;

/// How long a request's head may be, in bytes.
const MOST_BYTES: usize = 8 << 10;

/// How many headers it may have.
const MOST_HEADERS: usize = 64;

/// Answers requests for `/metrics` with what `text` gives. It never ends by itself.
pub(super) fn serve(
    listener: TcpListener,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> impl Future<Output = ()> + Send {
    let (text, permits) = (Arc::new(text), Arc::new(Semaphore::new(MOST)));
    async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::warn!(%error, "metrics cannot be served"),
        };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files: some of them may be closed soon.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
            let text = text.clone();
            tokio::spawn(async move {
                // Whoever is too slow, or has gone away, gets no answer.
                let _ = tokio::time::timeout(LONGEST, connection(stream, &*text)).await;
                drop(permit);
            });
        }
    }
}

async fn connection(mut stream: TcpStream, text: &(dyn Fn() -> String + Send + Sync)) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1 << 10);
    let answer = loop {
        match answer(&head, text) {
            Some(answer) => break answer,
            None if head.len() >= MOST_BYTES => break problem("431 Request Header Fields Too Large", ""),
            None => {}
        }
        if (&mut stream).take((MOST_BYTES - head.len()) as u64).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with bytes unread would take the answer back.
    tokio::io::copy(&mut (&mut stream).take(1 << 20), &mut tokio::io::sink()).await?;
    Ok(())
}

/// The answer to a request, once its head is whole.
fn answer(head: &[u8], text: &(dyn Fn() -> String + Send + Sync)) -> Option<String> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Partial) => None,
        Err(httparse::Error::TooManyHeaders) => Some(problem("431 Request Header Fields Too Large", "")),
        Err(_) => Some(problem("400 Bad Request", "")),
        Ok(Status::Complete(_)) => {
            let path = request.path.map(|path| path.split_once('?').map_or(path, |(path, _)| path));
            Some(match (request.method, path) {
                (Some("GET"), Some("/metrics")) => response("200 OK", CONTENT_TYPE, "", &text()),
                (_, Some("/metrics")) => problem("405 Method Not Allowed", "Allow: GET\r\n"),
                _ => problem("404 Not Found", ""),
            })
        }
    }
}

fn problem(status: &str, headers: &str) -> String {
    let (_, reason) = status.split_once(' ').unwrap_or_default();
    response(status, "text/plain; charset=utf-8", headers, &format!("{reason}; metrics are at /metrics\n"))
}

fn response(status: &str, content_type: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{headers}Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_metrics_is_answered_with_them() {
        let answer = |head: &str| {
            let answer = answer(head.as_bytes(), &|| "x 1\n".to_owned());
            answer.map(|answer| answer.split_once("\r\n").expect("a line").0.to_owned())
        };
        let says = |head: &str| answer(head).expect("an answer");
        assert_eq!(says("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(says("GET /metrics?name=x HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(says("POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(says("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
        assert_eq!(says("GET /metrics/x HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
        assert_eq!(says("\u{0}\u{1}\r\n\r\n"), "HTTP/1.1 400 Bad Request");
        let many = "a: b\r\n".repeat(65);
        let many = format!("GET /metrics HTTP/1.1\r\n{many}\r\n");
        assert_eq!(says(&many), "HTTP/1.1 431 Request Header Fields Too Large");
        assert_eq!(answer("GET /metrics HTTP/1.1\r\nHost:"), None);
        assert_eq!(answer(""), None);
    }
}
