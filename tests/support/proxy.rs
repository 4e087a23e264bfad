//! A faulty way to a server: connections break off after some bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

/// Each direction of a connection whose number is a multiple of this breaks off early, so that some surely do.
const EARLY: u64 = 3;

/// How much earlier.
const EARLIER: u64 = 256;

/// Passes connections on to a port of this machine. Each breaks off after at most so many bytes in one direction.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    /// How many bytes a connection may pass at most; 0 for all.
    most: AtomicU64,
    /// How many directions of connections there were, and how many have broken off.
    passed: AtomicU64,
    broken: AtomicU64,
    random: AtomicU64,
    is_over: AtomicBool,
}

impl Proxy {
    pub(crate) fn new(to: u16, most: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            most: AtomicU64::new(most),
            passed: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            random: AtomicU64::new(7),
            is_over: AtomicBool::new(false),
        });
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.is_over.load(SeqCst) {
                    break;
                }
                let (Ok(near), Ok(far)) = (stream, TcpStream::connect(("127.0.0.1", to))) else { continue };
                let ends = |stream: &TcpStream| stream.try_clone().expect("a copy");
                let (up, down) = ((ends(&near), ends(&far)), (far, near));
                for (from, to) in [up, down] {
                    let state = shared.clone();
                    thread::spawn(move || state.pass(from, to));
                }
            }
        });
        Self { port, state }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on nothing breaks off.
    pub(crate) fn mend(&self) {
        self.state.most.store(0, SeqCst);
    }

    /// How many connections have broken off.
    pub(crate) fn broken(&self) -> u64 {
        self.state.broken.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let most = self.most.load(SeqCst);
        let is_early = self.passed.fetch_add(1, SeqCst).is_multiple_of(EARLY);
        let mut left = match most {
            0 => u64::MAX,
            most if is_early => self.random() % (most / EARLIER),
            most => self.random() % most,
        };
        let mut bytes = vec![0; 64 << 10];
        loop {
            let read = from.read(&mut bytes).unwrap_or(0);
            if read == 0 || to.write_all(&bytes[..read.min(left as usize)]).is_err() {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            left = left.saturating_sub(read as u64);
            if left == 0 {
                self.broken.fetch_add(1, SeqCst);
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                return;
            }
        }
    }

    fn random(&self) -> u64 {
        let next = |state: u64| {
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
        };
        next(self.random.fetch_update(SeqCst, SeqCst, |state| Some(next(state))).unwrap_or_default()) >> 17
    }
}
