//! Documents of a corpus in rounds: each is read first, and then worked on by several threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use futures::{Stream, StreamExt};

use millstream::{Document, Error, Result, Tracked};

/// How much text a thread takes at once, in bytes.
const CHUNK_BYTES: usize = 128 << 10;

/// The documents of a round: about `bytes` of text, and at least what a thread takes at once.
pub(crate) async fn read<S>(documents: &mut S, bytes: u64) -> Result<Vec<Document>>
where
    S: Stream<Item = Result<Tracked<Document>>> + Unpin,
{
    let (mut round, mut size) = (Vec::new(), 0);
    while size < bytes.max(CHUNK_BYTES as u64) {
        let Some(document) = documents.next().await else { break };
        let document = document?.value;
        size += document.text().len() as u64;
        round.push(document);
    }
    Ok(round)
}

/// The results of `work` for chunks of the documents, in order.
pub(crate) fn on_threads<T: Send>(
    documents: &[Document],
    threads: usize,
    work: impl Fn(&[Document]) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let mut size = 0;
    let chunks: Vec<&[Document]> = documents
        .chunk_by(|document, _| {
            size += document.text().len();
            let is_full = size >= CHUNK_BYTES;
            if is_full {
                size = 0;
            }
            !is_full
        })
        .collect();
    let next = AtomicUsize::new(0);
    let run = || -> Result<Vec<(usize, T)>> {
        let mine = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
        let mine = mine.map_while(|at| chunks.get(at).map(|chunk| Ok((at, work(chunk)?))));
        mine.collect()
    };
    let mut results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let lost = |_| Err(Error::tokenizer("of the corpus", "a thread panicked"));
        let mut results = Vec::new();
        for thread in threads {
            results.extend(thread.join().unwrap_or_else(lost)?);
        }
        Ok::<_, Error>(results)
    })?;
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
