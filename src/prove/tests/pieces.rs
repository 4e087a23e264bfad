//! Documents out of the pieces of batches, padding and the loss.

use std::ops::Range;

use crate::batch::Batch;
use crate::prove::documents::{Documents, Part};
use crate::prove::fault::FaultKind;

/// A batch of these rows, each of which has the ids of one document from a place on, and padding behind.
fn batch(rows: &[(usize, Range<usize>)], width: usize) -> Batch {
    use crate::batch::BatchBuilder;
    use crate::document::{Part, Sequence, Tokens};
    let tokens: Vec<Tokens> = (0..2).map(|_| Tokens::new((10..30).collect(), 20)).collect();
    let mut builder = BatchBuilder::new(rows.len(), 0);
    for (document, ids) in rows {
        builder.push(&Sequence::new(vec![Part::new(&tokens[*document], ids.clone())], width));
    }
    builder.finish(crate::cursor::Cursor::default())
}

#[test]
fn rests_packed_as_samples_are_found_and_cut_documents_are_put_together() {
    let batch = batch(&[(0, 0..9), (0, 8..17)], 9);
    let learned = vec![true; 18];
    let (key, pieces) = ((0, 0, 0), batch.pieces());
    let mut whole = Documents::new(false);
    assert!(matches!(whole.add(key, &batch, &pieces[0], &learned), Part::Beginning { is_whole: true, .. }));
    assert_eq!(whole.add(key, &batch, &pieces[1], &learned), Part::Inside);

    let mut cut = Documents::new(true);
    let Part::Beginning { gathered, is_whole: false } = cut.add(key, &batch, &pieces[0], &learned) else {
        panic!("it may go on");
    };
    cut.keep(key, gathered);
    let Part::Beginning { gathered, .. } = cut.add(key, &batch, &pieces[1], &learned) else {
        panic!("it goes on");
    };
    assert_eq!(gathered.ids, (10..27).collect::<Vec<u32>>());
    assert_eq!(gathered.learned.len(), 17);
    assert_eq!(cut.add(key, &batch, &pieces[1], &learned), Part::Inside);
    assert_eq!(cut.within_stream().add(key, &batch, &pieces[1], &learned), Part::Rest);
}

#[test]
fn padding_and_the_loss_are_looked_at() {
    let batch = batch(&[(0, 0..5), (1, 0..9)], 9);
    let right = crate::prove::learned(&batch);
    assert!(crate::prove::rows(&batch, &right).is_none());
    let fault = |place: usize| {
        let mut learned = right.clone();
        learned[place] = !learned[place];
        crate::prove::rows(&batch, &learned).map(|fault| fault.kind)
    };
    assert_eq!(fault(6), Some(FaultKind::PaddingLearned));
    assert_eq!(fault(3), Some(FaultKind::IgnoredByLoss));
    assert_eq!(fault(9), None, "nothing predicts a document's first id");
}
