//! A real S3 server: moto's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::skip::skipped;
use super::wait::wait_for;

/// moto's server, if it is installed.
pub(crate) struct Moto {
    child: Child,
    port: u16,
}

impl Moto {
    /// Starts it. Without it the test of this name is skipped, unless it is required.
    pub(crate) fn start_or_skip(test: &str) -> Option<Self> {
        let moto = Self::start();
        if moto.is_none() {
            let how = "pip install 'moto[server]', and put moto_server on PATH or set MOTO_SERVER";
            assert!(std::env::var_os("MILLSTREAM_REQUIRE_MOTO").is_none(), "moto is not there: {how}");
            skipped(test, &format!("no S3 server; {how}"));
        }
        moto
    }

    fn start() -> Option<Self> {
        let program =
            std::env::var_os("MOTO_SERVER").map_or_else(|| PathBuf::from("moto_server"), PathBuf::from);
        // Another program may take the port before moto does.
        for _ in 0..10 {
            let free = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = free.local_addr().expect("an address").port();
            drop(free);
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
            let mut moto = Self { child, port };
            let answers = || TcpStream::connect(("127.0.0.1", port)).is_ok();
            let is_up = wait_for("an answer of moto", || match moto.child.try_wait() {
                Ok(None) => answers().then_some(true),
                _ => Some(false),
            });
            if is_up {
                return Some(moto);
            }
        }
        panic!("moto ends at once");
    }

    /// Where it answers.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What a process needs to find an S3 server at `endpoint`.
    pub(crate) fn environment(endpoint: &str) -> [(&str, &str); 5] {
        [
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
        ]
    }

    pub(crate) fn put(&self, path: &str, body: &[u8]) {
        let (status, _) = self.ask("PUT", path, body);
        assert_eq!(status, "200", "{path}");
    }

    /// The bytes of an object, if there is one.
    pub(crate) fn get(&self, path: &str) -> Option<Vec<u8>> {
        let (status, body) = self.ask("GET", path, b"");
        (status == "200").then_some(body)
    }

    pub(crate) fn delete(&self, path: &str) {
        let (status, _) = self.ask("DELETE", path, b"");
        assert_eq!(status, "204", "{path}");
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let authorization = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
                             SignedHeaders=host, Signature=0";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: {authorization}\r\ncontent-length: \
             {}\r\nconnection: close\r\n\r\n",
            self.port,
            body.len()
        )
        .expect("sent");
        stream.write_all(body).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (head.split(' ').nth(1).unwrap_or_default().to_owned(), answer.split_off(end))
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
