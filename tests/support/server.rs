//! An HTTP/1.1 server on loopback that can be slow, break off, lie and change its files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// After so long without a request, held answers go out for the first time: the client may need them to ask for more.
const QUIET: Duration = Duration::from_millis(200);

/// After so long no answer is held any more.
const PATIENCE: Duration = Duration::from_secs(240);

/// What servers say to browsers.
const PAGE: &str =
    "<!DOCTYPE html>\n<html><head><title>No</title></head><body><h1>Sorry</h1></body></html>\n";

/// A file that is served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl Content {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: Arc::new(bytes.into()), etag: Some("\"one\"".to_owned()), modified: None }
    }

    /// The same bytes, under another etag.
    pub(crate) fn version(&self, etag: &str) -> Self {
        Self { etag: Some(format!("{etag:?}")), ..self.clone() }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// As it was sent, percent signs included.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Request {
    /// Reads a request up to its body; nothing if there is none.
    pub(crate) fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        Ok(Some(Self { method, path: path.to_owned(), query: query.to_owned(), headers }))
    }

    /// The bytes that are asked for, of `len`.
    pub(crate) fn range(&self, len: usize) -> Option<(usize, usize)> {
        let (from, to) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        if from.is_empty() {
            return Some((len.saturating_sub(to.parse().ok()?), len));
        }
        let to = if to.is_empty() { len } else { to.parse::<usize>().ok()?.saturating_add(1).min(len) };
        Some((from.parse().ok()?, to))
    }
}

/// What goes wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Nothing,
    /// This status, and so many seconds to wait.
    Status(u16, Option<u64>),
    /// This status, with a page for a browser.
    Page(u16),
    /// This status, with a body that is said to be in this coding.
    StatusIn(u16, &'static str),
    /// The connection is closed without an answer.
    Closed,
    /// The connection is closed after so many bytes of the body.
    Cut(usize),
    /// The body is so many bytes shorter than was asked for, and says that this is all.
    Short(usize),
    /// The whole file comes, whatever was asked for.
    NoRanges,
    /// The body is so long, whatever was asked for, and is said to be in this coding.
    Coded(&'static str, usize),
    /// There is no answer for so long.
    Silent(Duration),
}

type Faults = Box<dyn FnMut(&Request) -> Fault + Send>;

pub(crate) struct State {
    pub(crate) files: Mutex<BTreeMap<String, Content>>,
    faults: Mutex<Faults>,
    pub(crate) requests: Mutex<Vec<Request>>,
    pub(crate) latency: Mutex<Duration>,
    under_way: AtomicUsize,
    pub(crate) most_under_way: AtomicUsize,
    /// Answers are held until so many requests were under way at once.
    awaited: AtomicUsize,
    hold: Mutex<Hold>,
    /// Connections that the client closed while an answer was on its way.
    pub(crate) given_up: AtomicUsize,
    is_over: AtomicBool,
}

/// What is known of the answers that are held.
///
/// How many requests a client makes before it needs an answer is not known: a lane asks for its first split alone, and
/// for more when something of it has come. So when all is quiet the answers that are held then go out. A busy machine
/// looks quiet too. Each time it takes twice as long, so that the next requests have longer to come together.
struct Hold {
    began: Instant,
    /// When the last request came, or the last answers went out.
    last: Instant,
    quiet: Duration,
    /// How often answers have gone out although too few requests were under way.
    rounds: usize,
}

impl Hold {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, last: now, quiet: QUIET, rounds: 0 }
    }
}

/// The server; it ends when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) state: Arc<State>,
}

impl Server {
    pub(crate) fn new<N: Into<String>>(files: impl IntoIterator<Item = (N, Content)>) -> Self {
        let state = Arc::new(State {
            files: Mutex::new(files.into_iter().map(|(name, content)| (name.into(), content)).collect()),
            faults: Mutex::new(Box::new(|_| Fault::Nothing)),
            requests: Mutex::default(),
            latency: Mutex::default(),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            awaited: AtomicUsize::new(0),
            hold: Mutex::new(Hold::new()),
            given_up: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if served.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), state) = (stream, served.clone()) else { continue };
                // Or each body waits until the client has acknowledged the head.
                let _ = stream.set_nodelay(true);
                thread::spawn(move || while state.answer(&stream).unwrap_or(false) {});
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// Lets `faults` say what goes wrong with each request.
    pub(crate) fn with_faults(&self, faults: impl FnMut(&Request) -> Fault + Send + 'static) {
        *self.state.faults.lock().expect("no panic") = Box::new(faults);
    }

    /// From now on answers are held until so many requests were under way at once. Those without which the client asks
    /// for nothing more go out before.
    pub(crate) fn await_requests(&self, together: usize) {
        *self.state.hold.lock().expect("no panic") = Hold::new();
        self.state.most_under_way.store(0, Ordering::SeqCst);
        self.state.awaited.store(together, Ordering::SeqCst);
    }

    /// How many requests were under way at once since [`Server::await_requests`].
    pub(crate) fn most_under_way(&self) -> usize {
        self.state.most_under_way.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, name: &str, content: Content) {
        self.state.files.lock().expect("no panic").insert(name.to_owned(), content);
    }

    /// How many requests there were since this was asked last.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.requests.lock().expect("no panic"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    /// Answers one request; false if the connection is closed then.
    fn answer(&self, stream: &TcpStream) -> std::io::Result<bool> {
        let Some(request) = Request::read(&mut BufReader::new(stream))? else { return Ok(false) };
        self.requests.lock().expect("no panic").push(request.clone());
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(under_way, Ordering::SeqCst);
        let latency = *self.latency.lock().expect("no panic");
        thread::sleep(latency);
        self.hold();
        // Before the answer: the client may be done with it at once.
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.respond(stream, &request)
    }

    /// Returns when the answer to a request that came now may go out.
    fn hold(&self) {
        let rounds = {
            let mut hold = self.hold.lock().expect("no panic");
            hold.last = Instant::now();
            hold.rounds
        };
        let are_too_few = || self.most_under_way.load(Ordering::SeqCst) < self.awaited.load(Ordering::SeqCst);
        while are_too_few() && !self.is_over.load(Ordering::SeqCst) {
            let mut hold = self.hold.lock().expect("no panic");
            if hold.rounds > rounds || hold.began.elapsed() > PATIENCE {
                return;
            }
            if hold.last.elapsed() > hold.quiet {
                hold.rounds += 1;
                hold.quiet *= 2;
                hold.last = Instant::now();
                return;
            }
            drop(hold);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn respond(&self, mut stream: &TcpStream, request: &Request) -> std::io::Result<bool> {
        let fault = self.faults.lock().expect("no panic")(request);
        match fault {
            Fault::Closed => return Ok(false),
            Fault::Silent(time) => {
                stream.set_read_timeout(Some(time))?;
                if let Ok(0) = stream.read(&mut [0]) {
                    self.given_up.fetch_add(1, Ordering::SeqCst);
                }
                return Ok(false);
            }
            Fault::Status(status, wait) => {
                let wait = wait.map_or(String::new(), |seconds| format!("retry-after: {seconds}\r\n"));
                write!(stream, "HTTP/1.1 {status} No\r\n{wait}content-length: 4\r\n\r\nnope")?;
                return Ok(true);
            }
            Fault::Page(status) => {
                let page = if request.method == "HEAD" { "" } else { PAGE };
                write!(stream, "HTTP/1.1 {status} No\r\ncontent-length: {}\r\n\r\n{page}", PAGE.len())?;
                return Ok(true);
            }
            Fault::StatusIn(status, coding) => {
                write!(
                    stream,
                    "HTTP/1.1 {status} No\r\ncontent-encoding: {coding}\r\ncontent-length: 4\r\n\r\nnope"
                )?;
                return Ok(true);
            }
            _ => {}
        }
        let name = request.path.trim_start_matches('/');
        let files = self.files.lock().expect("no panic");
        let content = files.get(name).or_else(|| files.get(&decoded(name))).cloned();
        drop(files);
        let Some(Content { bytes, etag, modified }) = content else {
            write!(stream, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(true);
        };
        // A weak etag equals none.
        let is_same =
            |wanted: &String| etag.as_ref().is_some_and(|etag| etag == wanted && !etag.starts_with("W/"));
        if request.headers.get("if-match").is_some_and(|wanted| !is_same(wanted)) {
            write!(stream, "HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(true);
        }
        let mut head = String::new();
        for (name, value) in [("etag", etag), ("last-modified", modified)] {
            head.extend(value.map(|value| format!("{name}: {value}\r\n")));
        }
        let range = request.range(bytes.len()).filter(|_| fault != Fault::NoRanges);
        if range.is_some_and(|(from, _)| from >= bytes.len()) {
            let len = bytes.len();
            write!(stream, "HTTP/1.1 416 No\r\ncontent-range: bytes */{len}\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(true);
        }
        let (from, to) = range.unwrap_or((0, bytes.len()));
        let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
        if range.is_some() {
            head += &format!("content-range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
        }
        let mut body = &bytes[from..to];
        if let Fault::Short(by) = fault {
            body = &body[..body.len().saturating_sub(by)];
        }
        let coded;
        if let Fault::Coded(coding, len) = fault {
            head += &format!("content-encoding: {coding}\r\n");
            coded = vec![b'\n'; len];
            body = &coded;
        }
        write!(stream, "HTTP/1.1 {status}\r\n{head}content-length: {}\r\n\r\n", body.len())?;
        if request.method == "HEAD" {
            return Ok(true);
        }
        if let Fault::Cut(after) = fault {
            stream.write_all(&body[..after.min(body.len())])?;
            return Ok(after >= body.len());
        }
        stream.write_all(body)?;
        Ok(true)
    }
}

/// A path without its percent signs.
pub(crate) fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.extend(part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()));
        bytes.extend(part.bytes().skip(2));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
