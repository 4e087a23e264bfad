//! Sums the gradients of all ranks, in buckets of a fixed size and order, on the host.
//!
//! burn hands over all gradients when the backward pass is done, and not before. So three things run at once: one
//! bucket is summed, the next is copied out of the device, and the one before goes back. Held in memory: the gradients
//! on the host (on the CPU they are there already, and are not copied), and three buckets.

use std::sync::mpsc::{Receiver, Sender, channel};

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor, TensorData};

use super::Peers;
use crate::device::reading::failed;
use millstream::error::{Error, Result};

/// How many numbers are summed at once, 16 MiB: enough that sending costs little next to the transfer, and few enough
/// that the first bucket comes back long before the last is sent.
const BUCKET: usize = 4 << 20;

/// How many buckets are on their way at once.
const UNDER_WAY: usize = 2;

impl Peers {
    /// Returns the sums of all ranks' gradients, for each parameter of `model` for which `has_gradient` says that a rank
    /// has one. Sums are in the order of the ranks. Blocks until all ranks have called it.
    pub(crate) fn sum(
        &self,
        model: &impl Module,
        mut params: GradientsParams,
        has_gradient: &[bool],
    ) -> Result<GradientsParams> {
        if self.is_alone() {
            return Ok(params);
        }
        let sums = Sums::new(self, BUCKET);
        let mut host =
            Host { at: 0, has_gradient, params: &mut params, types: Vec::new(), sums, failed: None };
        model.visit(&mut host);
        let Host { types, sums, failed, .. } = host;
        if let Some(error) = failed {
            return Err(error);
        }
        let summed = sums.finish()?.into_iter().zip(types);
        let mut back = Back { at: 0, has_gradient, params: &mut params, summed };
        model.visit(&mut back);
        Ok(params)
    }
}

/// For each parameter of `model`, in order, whether it has a gradient.
pub(crate) fn has_gradient(model: &impl Module, params: &GradientsParams) -> Vec<bool> {
    struct Has<'a>(&'a GradientsParams, Vec<bool>);
    impl ModuleVisitor for Has<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(self.0.get::<D>(param.id).is_some());
        }
    }
    let mut has = Has(params, Vec::new());
    model.visit(&mut has);
    has.1
}

/// Brings gradients to the host, one after another, to be summed.
struct Host<'a> {
    /// The parameter's place in the model.
    at: usize,
    has_gradient: &'a [bool],
    params: &'a mut GradientsParams,
    types: Vec<DType>,
    sums: Sums<'a>,
    failed: Option<Error>,
}

impl ModuleVisitor for Host<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.at += 1;
        if !self.has_gradient[self.at - 1] || self.failed.is_some() {
            return;
        }
        let Some(gradient) = self.params.remove::<D>(param.id) else {
            // This rank had no targets for it.
            self.types.push(DType::F32);
            self.failed = self.sums.push(TensorData::zeros::<f32, _>(param.lazy_shape())).err();
            return;
        };
        self.types.push(gradient.dtype());
        let data = gradient.try_into_data().map_err(failed);
        self.failed = data.and_then(|data| self.sums.push(data.convert::<f32>())).err();
    }
}

/// Brings sums back to the device.
struct Back<'a, S> {
    at: usize,
    has_gradient: &'a [bool],
    params: &'a mut GradientsParams,
    summed: S,
}

impl<S: Iterator<Item = (TensorData, DType)>> ModuleVisitor for Back<'_, S> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.at += 1;
        if !self.has_gradient[self.at - 1] {
            return;
        }
        let (data, dtype) = self.summed.next().expect("a sum for each gradient");
        let device = param.lazy_device().inner();
        self.params.register(param.id, Tensor::<D>::from_data(data, &device).cast(dtype));
    }
}

/// Numbers that are summed in place, bucket by bucket, as they come.
struct Sums<'a> {
    peers: &'a Peers,
    bucket: usize,
    data: Vec<TensorData>,
    /// How many numbers have come and are in no bucket yet.
    waiting: usize,
    /// Where the next bucket is filled from, and where the next sum goes.
    sent: ArrayOffset,
    got: ArrayOffset,
    under_way: usize,
    /// Buckets that have come back, to be filled again.
    empty: Vec<Vec<f32>>,
    sender: Sender<Vec<f32>>,
    receiver: Receiver<Vec<f32>>,
}

/// A place in a list of arrays.
#[derive(Clone, Copy, Default)]
struct ArrayOffset {
    array: usize,
    from: usize,
}

impl<'a> Sums<'a> {
    fn new(peers: &'a Peers, bucket: usize) -> Self {
        let (sender, receiver) = channel();
        let (sent, got) = Default::default();
        let (data, empty) = (Vec::new(), Vec::new());
        Self { peers, bucket, data, waiting: 0, sent, got, under_way: 0, empty, sender, receiver }
    }

    fn push(&mut self, data: TensorData) -> Result<()> {
        self.waiting += data.num_elements();
        self.data.push(data);
        while self.waiting >= self.bucket {
            self.send(self.bucket)?;
        }
        Ok(())
    }

    /// Hands over the next `count` numbers. If enough are under way, waits for the first of them.
    fn send(&mut self, count: usize) -> Result<()> {
        let mut bucket = self.empty.pop().unwrap_or_default();
        bucket.clear();
        bucket.reserve(count);
        self.sent.pass(&mut self.data, count, |numbers| bucket.extend_from_slice(numbers));
        self.waiting -= count;
        self.under_way += 1;
        self.peers.link.add(bucket, &self.sender)?;
        if self.under_way > UNDER_WAY {
            self.receive();
        }
        Ok(())
    }

    fn receive(&mut self) {
        let bucket = self.receiver.recv().expect("this has a sender too");
        self.under_way -= 1;
        let mut left = bucket.as_slice();
        self.got.pass(&mut self.data, bucket.len(), |numbers| {
            let (these, others) = left.split_at(numbers.len());
            numbers.copy_from_slice(these);
            left = others;
        });
        self.empty.push(bucket);
    }

    fn finish(mut self) -> Result<Vec<TensorData>> {
        if self.waiting > 0 {
            self.send(self.waiting)?;
        }
        while self.under_way > 0 {
            self.receive();
        }
        Ok(self.data)
    }
}

impl ArrayOffset {
    /// Goes over the next `count` numbers, in runs that lie in one array.
    fn pass(&mut self, data: &mut [TensorData], mut count: usize, mut over: impl FnMut(&mut [f32])) {
        while count > 0 {
            let numbers = data[self.array].as_mut_slice::<f32>().expect("they were converted to f32");
            let run = count.min(numbers.len() - self.from);
            over(&mut numbers[self.from..][..run]);
            count -= run;
            self.from += run;
            if self.from == numbers.len() {
                *self = Self { array: self.array + 1, from: 0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_to_their_places_whatever_a_bucket_holds() {
        for bucket in 1..40 {
            let lengths = [3, 1, 7, 0, 12, 2, 9];
            let data = |length: usize| TensorData::new((0..length).map(|at| at as f32).collect(), [length]);
            let alone = Peers::ALONE;
            let mut sums = Sums::new(&alone, bucket);
            lengths.into_iter().for_each(|length| sums.push(data(length)).expect("alone"));
            assert_eq!(sums.finish().expect("alone"), lengths.map(data).to_vec(), "{bucket}");
        }
    }
}
