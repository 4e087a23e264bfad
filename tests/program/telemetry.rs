//! What the program shows of a run: the trace file, the metrics, the verdict and the table.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;

use serde_json::Value;

use crate::program::{TINY, millstream, start};
use crate::support::wait::{PATIENCE, wait_for};

/// A program that runs; it is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        Self(start(arguments))
    }

    #[cfg(unix)]
    fn interrupt(&self) {
        use nix::sys::signal::{Signal, kill};
        kill(nix::unistd::Pid::from_raw(self.0.id() as i32), Signal::SIGINT).expect("it can be asked");
    }
}

/// A trace file, checked to be one.
struct Trace {
    /// The rows by number.
    rows: BTreeMap<u64, String>,
    /// Row, begin, end, name, fields.
    spans: Vec<(u64, f64, f64, String, Value)>,
    counters: BTreeSet<String>,
}

impl Trace {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a trace");
        let whole: Value = serde_json::from_str(&text).expect("the trace is JSON");
        let mut trace = Self { rows: BTreeMap::new(), spans: Vec::new(), counters: BTreeSet::new() };
        for event in whole["traceEvents"].as_array().expect("events") {
            let name = event["name"].as_str().expect("a name").to_owned();
            let number = |field: &str| event[field].as_f64().expect("a number");
            match event["ph"].as_str().expect("a phase") {
                "M" if name == "thread_name" => {
                    let row = event["args"]["name"].as_str().expect("a name").to_owned();
                    let known = trace.rows.insert(event["tid"].as_u64().expect("a row"), row);
                    assert!(known.is_none(), "a row is named once");
                }
                "M" => {}
                "C" => drop(trace.counters.insert(name)),
                "X" => {
                    let (from, length) = (number("ts"), number("dur"));
                    assert!(from >= 0.0 && length >= 0.0, "{event}");
                    let row = event["tid"].as_u64().expect("a row");
                    trace.spans.push((row, from, from + length, name, event["args"].clone()));
                }
                other => panic!("an event of phase {other}"),
            }
        }
        trace
    }

    /// The stages that have rows with spans.
    fn stages(&self) -> BTreeSet<&str> {
        let row = |row: &u64| self.rows[row].split(' ').next().expect("a name");
        self.spans.iter().map(|(tid, ..)| row(tid)).collect()
    }

    fn of(&self, stage: &str, name: &str) -> Vec<&(u64, f64, f64, String, Value)> {
        let is_of = |row: u64| self.rows[&row].split(' ').next() == Some(stage);
        self.spans.iter().filter(|(row, _, _, found, _)| is_of(*row) && found == name).collect()
    }

    /// Spans of one row lie within each other or one behind the other.
    fn assert_nested(&self) {
        let mut spans: Vec<_> =
            self.spans.iter().map(|(row, from, to, name, _)| (*row, *from, *to, name)).collect();
        // What lies around others comes first.
        spans.sort_by(|a, b| (a.0, a.1, -a.2).partial_cmp(&(b.0, b.1, -b.2)).expect("numbers"));
        let mut open: Vec<(u64, f64, f64, &String)> = Vec::new();
        // Times are nanoseconds; their sums are rounded far below one.
        let slack = 0.000_9;
        for span in spans {
            while open.last().is_some_and(|last| last.0 != span.0 || last.2 <= span.1 + slack) {
                open.pop();
            }
            if let Some(around) = open.last() {
                assert!(
                    span.2 <= around.2 + slack,
                    "{span:?} overlaps {around:?} of row {}",
                    self.rows[&span.0]
                );
            }
            open.push(span);
        }
    }
}

const STAGES: [&str; 7] = ["batch", "pack", "prefetch", "shuffle", "source", "tokenize", "trainer"];

#[test]
fn a_trace_has_every_stage_as_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, out) = (directory.path().join("trace.json"), directory.path().join("run"));
    let out = format!("train.out={}", out.display());
    let file = path.to_str().expect("a name");
    let arguments = [
        "train", TINY, "--json", "--trace", file, "--set", &out, "--set", "train.steps=30", "--set",
        "train.validate_every=10",
    ];
    let output = millstream(&arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = Trace::read(&path);
    assert_eq!(trace.stages(), BTreeSet::from(STAGES));
    trace.assert_nested();
    let names = ["trainer step", "trainer gradients", "trainer optimizer"];
    for (stage, name) in names.map(|name| name.split_once(' ').expect("two words")) {
        assert_eq!(trace.of(stage, name).len(), 30, "{name}");
    }
    assert_eq!(trace.of("trainer", "validate").len(), 3);
    for (stage, name) in [
        ("trainer", "checkpoint"),
        ("trainer", "wait"),
        ("prefetch", "send"),
        ("prefetch", "work"),
        ("source", "read"),
        ("batch", "batch"),
    ] {
        assert!(!trace.of(stage, name).is_empty(), "{stage} {name}");
    }
    for (.., fields) in trace.of("tokenize", "tokenize") {
        for field in ["documents", "tokens", "bytes"] {
            assert!(fields[field].as_u64() > Some(0), "{field} of {fields}");
        }
    }
    // A step's gradients lie within it, in the same row.
    let within = |a: &(u64, f64, f64, String, Value), b: &(u64, f64, f64, String, Value)| {
        a.0 == b.0 && a.1 >= b.1 && a.2 <= b.2 + 0.000_9
    };
    let steps = trace.of("trainer", "step");
    for part in trace.of("trainer", "gradients").into_iter().chain(trace.of("trainer", "optimizer")) {
        assert!(steps.iter().any(|step| within(part, step)), "{part:?}");
    }
    for counter in ["bytes in flight", "workers busy", "queue of prefetch", "queue of tokenize"] {
        assert!(trace.counters.contains(counter), "{counter} of {:?}", trace.counters);
    }
}

#[test]
fn a_trace_is_whole_after_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "{\"text\": \"a line of text\"}\n".repeat(20_000) + "{\"text\": \"broken\n";
    std::fs::write(directory.path().join("rows.jsonl"), text).expect("a file");
    let config = directory.path().join("config.toml");
    let source = "[[source]]\nkind = \"jsonl\"\nfield = \"text\"\npaths = [\"ROWS\"]\n[tokenizer]\ntrain = { vocab_size = 300 }\n";
    let rows = directory.path().join("rows.jsonl").display().to_string();
    std::fs::write(&config, source.replace("ROWS", &rows)).expect("a file");
    let path = directory.path().join("trace.json");
    let tokenizer = ["--set", "tokenizer.train.sample=64KiB"];
    let arguments =
        ["bench", "loader", config.to_str().expect("a name"), "--trace", path.to_str().expect("a name")];
    let output = millstream(&[&arguments[..], &tokenizer].concat()).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("rows.jsonl:20001"), "{error}");
    let trace = Trace::read(&path);
    trace.assert_nested();
    assert!(!trace.of("source", "read").is_empty());
}

/// The same for every way in which a run may be ended while it goes on.
#[cfg(unix)]
#[test]
fn a_trace_is_whole_after_an_interruption_and_after_a_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.json");
    let bench = [
        "bench",
        "loader",
        TINY,
        "-n",
        "1000000",
        "--consume-ms",
        "1",
        "--trace",
        path.to_str().expect("a name"),
    ];
    for is_kill in [false, true] {
        let mut child = Running::start(&bench);
        wait_for("a span of a step reaches the file", || {
            let text = std::fs::read_to_string(&path).ok()?;
            text.contains("\"tokenize\",\"ph\":\"X\"").then_some(())
        });
        if is_kill {
            child.0.kill().expect("it dies");
            child.0.wait().expect("it is dead");
        } else {
            child.interrupt();
            assert_eq!(child.0.wait().expect("it ends").code(), Some(130));
            let mut report = String::new();
            child.0.stdout.take().expect("its output").read_to_string(&mut report).expect("text");
            assert!(
                report.contains("\nthe trainer "),
                "an interrupted measurement says what it came to: {report}"
            );
        }
        let trace = Trace::read(&path);
        trace.assert_nested();
        assert!(trace.stages().is_superset(&BTreeSet::from(["source", "tokenize"])));
    }

    let run = directory.path().join("run");
    let out = format!("train.out={}", run.display());
    let train =
        ["train", TINY, "--json", "--set", &out, "--set", "train.log_every=1", "--set", "train.steps=100000"];
    let mut child = Running::start(&[&train[..], &["--trace", path.to_str().expect("a name")]].concat());
    let lines = BufReader::new(child.0.stdout.take().expect("its output")).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON"));
    assert!(lines.any(|line| line["step"] == 20));
    child.interrupt();
    lines.for_each(drop);
    assert_eq!(child.0.wait().expect("it ends").code(), Some(130));
    let trace = Trace::read(&path);
    trace.assert_nested();
    assert!(trace.of("trainer", "step").len() >= 20);
    assert_eq!(trace.of("trainer", "checkpoint").len(), 1);
}

/// The samples of a scrape, by name and labels; every line is checked to be of the text format.
fn scrape(address: &str) -> Option<BTreeMap<String, f64>> {
    let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    let (mut samples, mut kind) = (BTreeMap::new(), (String::new(), String::new()));
    for line in body.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            let (name, help) = of.split_once(' ').expect("a name and a help");
            assert!(!help.is_empty());
            kind.0 = name.to_owned();
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, of_kind) = of.split_once(' ').expect("a name and a type");
            assert!(name == kind.0 && ["counter", "gauge"].contains(&of_kind), "{line}");
            assert_eq!(name.ends_with("_total"), of_kind == "counter", "{line}");
            kind.1 = of_kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let name = series.split('{').next().expect("a name");
            assert_eq!(name, kind.0, "samples stand behind their type");
            let labels = series.strip_prefix(name).expect("its own name");
            let is_labels = labels.starts_with('{') && labels.ends_with("\"}") && labels.contains("=\"");
            assert!(labels.is_empty() || is_labels, "{line}");
            let known = samples.insert(series.to_owned(), value.parse::<f64>().expect("a number"));
            assert!(known.is_none(), "{series} stands once");
        }
    }
    Some(samples)
}

/// Sends a request and gives the whole answer; nothing if the connection is refused or closed without one.
fn ask(address: &str, request: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

/// Where a program says that its metrics are.
fn metrics_of(child: &mut Running) -> String {
    let mut lines = BufReader::new(child.0.stderr.take().expect("its errors")).lines().map_while(Result::ok);
    let said = lines.find_map(|line| Some(line.strip_prefix("metrics are at http://")?.to_owned()));
    // Whoever closes a pipe ends who writes to it.
    std::thread::spawn(move || lines.for_each(drop));
    said.expect("the address").strip_suffix("/metrics").expect("of this machine alone").to_owned()
}

#[test]
fn metrics_are_served_and_no_client_harms_the_run() {
    let bench = ["bench", "loader", TINY, "-n", "100000000", "--consume-ms", "1", "--metrics-addr", "0"];
    let mut child = Running::start(&bench);
    let address = metrics_of(&mut child);
    assert!(address.starts_with("127.0.0.1:"), "a port alone is of this machine alone: {address}");
    let delivered = "millstream_tokens_total{stage=\"prefetch\"}";
    let has_begun =
        |samples: &BTreeMap<String, f64>| samples.get(delivered).is_some_and(|tokens| *tokens > 0.0);
    let first = wait_for("batches", || scrape(&address).filter(has_begun));
    for stage in ["source", "tokenize", "shuffle", "pack", "batch", "prefetch"] {
        for name in
            ["documents_total", "tokens_total", "busy_seconds_total", "wait_in_seconds_total", "queue_items"]
        {
            let series = format!("millstream_{name}{{stage=\"{stage}\"}}");
            assert!(first.contains_key(&series), "{series}");
        }
    }
    assert_eq!(first["millstream_queue_capacity{stage=\"prefetch\"}"], 4.0);
    assert_eq!(first["millstream_workers{stage=\"tokenize\"}"], 2.0);
    assert!(
        first["millstream_budget_bytes"] > 0.0
            && first.contains_key("millstream_wait_seconds{for=\"tokenize\"}")
    );

    // Those who are wrong are told, and those who are worse are let go.
    let status = |request: &[u8]| {
        let answer = ask(&address, request).expect("an answer");
        answer.split("\r\n").next().expect("a line").to_owned()
    };
    assert_eq!(status(b"GET /other HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(status(b"DELETE /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(status(b"\x16\x03\x01 no HTTP at all\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'a'; 100_000], b"\r\n\r\n"].concat();
    assert_eq!(status(&long), "HTTP/1.1 431 Request Header Fields Too Large");
    let connect = || TcpStream::connect(&address).expect("a connection");
    let silent: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
    let halves = (0..10).map(|_| {
        let mut stream = connect();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:");
        stream
    });
    let halves: Vec<TcpStream> = halves.collect();
    for _ in 0..20 {
        // Gone before the answer.
        let _ = connect().write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
    }
    let later = wait_for("an answer while others keep silent", || scrape(&address));
    drop((silent, halves));
    let later = wait_for("more batches", || scrape(&address).filter(|now| now[delivered] > later[delivered]));
    for (series, value) in first.iter().filter(|(series, _)| series.contains("_total")) {
        assert!(later[series] >= *value, "{series} only grows: {value}, {}", later[series]);
    }
    assert_eq!(child.0.try_wait().expect("it can be asked"), None, "the run goes on");
}

#[test]
fn who_connects_and_keeps_silent_keeps_nobody_from_an_answer() {
    let bench = ["bench", "loader", TINY, "-n", "100000000", "--consume-ms", "1", "--metrics-addr", "0"];
    let mut child = Running::start(&bench);
    let address = metrics_of(&mut child);
    wait_for("the first answer", || scrape(&address));
    let mut silent = Vec::new();
    for round in 0..3 {
        // More than there are places for: those who send nothing, a byte, and half a head.
        for sent in [&b""[..], b"G", b"GET /metrics HTTP/1.1\r\nHost:"].repeat(20) {
            let mut stream = TcpStream::connect(&address).expect("a connection");
            // It may have been let go already.
            let _ = stream.write_all(sent);
            silent.push(stream);
        }
        assert!(scrape(&address).is_some(), "nobody was answered in round {round}");
    }
    assert_eq!(child.0.try_wait().expect("it can be asked"), None, "the run goes on");
}

#[test]
fn a_runs_metrics_have_its_steps_and_a_port_in_use_is_told_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = format!("train.out={}", directory.path().join("run").display());
    let train = [
        "train", TINY, "--json", "--set", &out, "--set", "train.steps=100000", "--set",
        "train.peak_tflops=1", "--metrics-addr", ":0",
    ];
    let mut child = Running::start(&train);
    let output = child.0.stdout.take().expect("its output");
    std::thread::spawn(move || BufReader::new(output).lines().for_each(drop));
    let address = metrics_of(&mut child);
    let has_step = |samples: &BTreeMap<String, f64>| samples.contains_key("millstream_train_step");
    let samples = wait_for("a step", || scrape(&address).filter(has_step));
    assert!(samples["millstream_train_loss"] > 0.0 && samples["millstream_train_tokens"] > 0.0);
    assert!((0.0..=1.0).contains(&samples["millstream_train_wait_share"]));
    let flops = samples["millstream_train_flops_per_second"];
    assert!(flops > 0.0 && (samples["millstream_train_mfu"] / (flops / 1e12) - 1.0).abs() < 1e-9);

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|address| (address.port().to_string(), taken)).expect("an address");
    let output =
        millstream(&["bench", "loader", TINY, "--metrics-addr", &taken.0]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with(&format!("error: 127.0.0.1:{}: cannot serve metrics: ", taken.0)), "{error}");
    assert!(output.stdout.is_empty());
    let output =
        millstream(&["bench", "loader", TINY, "--metrics-addr", "somewhere"]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("such as 9100"), "{error}");
}

#[test]
fn the_verdict_and_the_table_stand_where_people_and_scripts_look() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let out = format!("train.out={}", run.display());
    let steps = ["--set", "train.steps=30", "--set", "train.sample_tokens=0", "--set", &out];
    let output = millstream(&[&["train", TINY][..], &steps].concat()).output().expect("it runs");
    let (said, progress) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{progress}");
    let table = |text: &str| {
        STAGES.iter().filter(|stage| **stage != "trainer").all(|stage| text.contains(&format!("\n{stage} ")))
    };
    assert!(said.contains("\nthe trainer ") && said.contains("\nstage ") && table(&said), "{said}");
    let is_step = |line: &&str| line.starts_with("step ") && line.contains(" tokens/s");
    let steps: Vec<&str> = progress.lines().filter(is_step).collect();
    assert_eq!(steps.len(), 3, "{progress}");
    assert!(
        steps[0].contains("FLOP/s  ") && steps.iter().any(|line| line.contains("  the trainer ")),
        "{progress}"
    );

    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let steps: Vec<Value> = lines.filter(|line| line["loss"].is_number()).collect();
    for line in &steps {
        let verdict = &line["verdict"];
        assert!(
            verdict["sentence"].as_str().is_some_and(|words| words.starts_with("the trainer ")),
            "{line}"
        );
        assert_eq!(verdict["wait_share"], line["wait_share"]);
    }
    assert_eq!(steps.len(), 3);

    let bench = millstream(&["bench", "loader", TINY, "-n", "50"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&bench.stdout);
    // On a busy machine all batches may have come before the first was asked for.
    assert!(said.contains("\nthe trainer ") && said.contains("\nstage ") && table(&said), "{said}");
    let bench = millstream(&["bench", "loader", TINY, "-n", "50", "--json"]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&bench.stdout).expect("JSON");
    // Uneven batches are blamed on the queue, and a consumer that hardly waits on nothing.
    let stage = report["verdict"]["stage"].as_str();
    let at_fault = report["meters"]["at_fault"].as_str();
    assert!(stage.is_none_or(|stage| stage == "prefetch" || Some(stage) == at_fault), "{report}");
    assert_eq!(report["verdict"]["wait_share"], report["meters"]["wait_share"]);
    assert_eq!(report["meters"]["stages"].as_array().expect("stages").len(), 6);
    assert_eq!(report["meters"]["batches"], 50);
}

#[test]
fn a_measurement_is_stopped_while_its_consumer_takes_its_time() {
    for how in ["sleep", "busy"] {
        let bench = [
            "bench", "loader", TINY, "-n", "3", "--consume-ms", "1e9", "--consume-by", how, "--metrics-addr",
            "0",
        ];
        let mut child = Running::start(&bench);
        let address = metrics_of(&mut child);
        let has_begun =
            |samples: &BTreeMap<String, f64>| samples.get("millstream_batches_total") == Some(&1.0);
        wait_for("the first batch", || scrape(&address).filter(has_begun));
        child.interrupt();
        let status = wait_for("its end", || child.0.try_wait().expect("it can be asked"));
        assert_eq!(status.code(), Some(130), "{how}");
    }
}

#[test]
fn a_source_that_gives_nothing_is_told_at_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("a.jsonl"), "{\"text\": \"one\", \"n\": 1}\n".repeat(40))
        .expect("a file");
    let config = directory.path().join("config.toml");
    let source = |name: &str, more: &str| {
        format!(
            "[[source]]\nname = {name:?}\nkind = \"jsonl\"\nfield = \"text\"\npaths = [\"a.jsonl\"]\n{more}\n"
        )
    };
    let all = source("all", "weight = 1.0");
    let none = source("none", "weight = 1.0\nwhere = \"n > 1\"");
    let off = source("off", "weight = 0.0");
    let rest =
        "[pipeline]\nepochs = 1\nlanes = 2\nseq_len = 8\nbatch_size = 2\n[tokenizer]\nkind = \"bytes\"\n";
    std::fs::write(&config, [all, none, off, rest.to_owned()].concat()).expect("a config");
    let mut command = millstream(&["digest", "config.toml"]);
    let output = command.current_dir(directory.path()).output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("the source gave no document").count(), 1, "{said}");
    assert!(
        said.lines().any(|line| line.contains("gave no document") && line.contains("source=none")),
        "{said}"
    );
}

/// What `bench` says of a run over some text, on standard error.
fn warnings(directory: &Path, more: &str) -> String {
    let config = directory.join("config.toml");
    let text = format!(
        "[[source]]\npaths = [\"{}/*.txt\"]\n{more}\nepochs = 1\nseq_len = 32\n[tokenizer]\nkind = \"bytes\"\n",
        directory.display()
    );
    std::fs::write(&config, text).expect("a config");
    let output =
        millstream(&["bench", "loader", config.to_str().expect("a path")]).output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn it_says_once_what_cannot_mix_and_what_will_be_padding() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = |count: usize| "a line of some length, as others\n".repeat(count);
    // A hundred lines are one text in two files; each split of 64 MiB is a file.
    std::fs::write(directory.path().join("long.txt"), lines(95)).expect("a file");
    std::fs::write(directory.path().join("short.txt"), lines(5)).expect("a file");
    let padding = "of the rows will be padding";
    let coarse = warnings(directory.path(), "split = \"64MiB\"\n[pipeline]\nlanes = 2");
    assert_eq!(coarse.matches(padding).count(), 1, "{coarse}");
    assert!(coarse.contains("Set fewer pipeline.lanes"), "{coarse}");
    // Left to the loader, splits are fine enough for every lane.
    let fine = warnings(directory.path(), "[pipeline]\nlanes = 2");
    assert!(!fine.contains(padding), "{fine}");
    assert!(!fine.contains("hardly mix"), "{fine}");
    // One of its lines is as long as all others, and no lane can share it.
    let uneven = lines(1599) + &"x".repeat(50_000) + "\n";
    let other = tempfile::tempdir().expect("a directory");
    std::fs::write(other.path().join("uneven.txt"), uneven).expect("a file");
    let uneven = warnings(other.path(), "[pipeline]");
    assert_eq!(uneven.matches(padding).count(), 1, "{uneven}");
    assert!(!uneven.contains("source.split"), "{uneven}");
    let some = lines(1);
    std::fs::write(other.path().join("uneven.txt"), some).expect("a file");
    let tiny = warnings(other.path(), "[pipeline]");
    assert!(!tiny.contains("WARN"), "{tiny}");
    let few = warnings(directory.path(), "split = \"64MiB\"\n[pipeline]");
    assert_eq!(few.matches("documents hardly mix").count(), 1, "{few}");
    assert!(few.contains("remove source.split"), "{few}");
}
