use futures::StreamExt;
use millstream::config::*;
use millstream::source::*;
use millstream::*;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut c = SourceConfig {
        paths: vec![a[2].clone()],
        on_error: OnError::Skip(1 << 40),
        oversize: Oversize::Skip,
        ..Default::default()
    };
    match a[1].as_str() {
        "file" => c.document = DocumentKind::File,
        "para" => c.document = DocumentKind::Paragraph,
        "jsonl" => {
            c.kind = SourceKind::Jsonl;
            c.field = Some("text".into())
        }
        _ => {}
    }
    let lanes: usize = a.get(3).map_or(1, |s| s.parse().unwrap());
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    rt.block_on(async {
        let t = Instant::now();
        let meter = Meter::new("source");
        let mut s = Source::open(&[c]).await.unwrap().with_meter(meter.clone()).with_budget(Budget::new(512 << 20));
        if let Some(n) = a.get(4) { s = s.with_slab_bytes(n.parse().unwrap()); }
        println!("open {:?} {}", t.elapsed(), s.summary());
        for _ in 0..3 {
            let t = Instant::now();
            let m0 = meter.snapshot();
            let (mut n, mut bytes) = (0u64, 0u64);
            let mut first = None;
            let mut streams: Vec<_> = (0..lanes).map(|lane| s.lane(Lane { lane, lanes: lanes.try_into().unwrap(), ..Default::default() }, &LaneCursor::default())).collect();
            let mut at = 0;
            while !streams.is_empty() {
                match streams[at].next().await { None => { let _ = streams.remove(at); } Some(d) => { let d = d.unwrap(); first.get_or_insert_with(|| t.elapsed()); n += 1; bytes += d.value.text().len() as u64; at += 1; } }
                if at >= streams.len() { at = 0 }
            }
            let e = t.elapsed().as_secs_f64();
            let m = meter.snapshot();
            println!("{n} docs {bytes} bytes {:.3}s {:.0} docs/s {:.0} MB/s {:.1} ns/doc; first {:?}; job busy {:.3}s = {:.1} ns/doc; skipped {}", e, n as f64 / e, bytes as f64 / e / 1e6, e * 1e9 / n as f64, first, m.busy_seconds - m0.busy_seconds, (m.busy_seconds - m0.busy_seconds) * 1e9 / n as f64, m.skipped - m0.skipped);
        }
    });
}
