//! Sums gradients on the GPUs themselves, where the ranks are threads that have one each: NVIDIA's NCCL does it, through
//! burn, without a copy to the host.
//!
//! No machine with several GPUs has run this for us. So it is used only after it has summed some numbers correctly, on all
//! GPUs of the run; otherwise gradients go through the host.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::distributed::{ReduceOperation, all_reduce};
use burn::tensor::{Device, Tensor};

use super::{Link, Peers};
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::train::device;

/// The GPUs of all ranks, in their order.
#[derive(Clone, Debug)]
pub(super) struct Nccl {
    devices: Vec<Device>,
}

/// How many numbers are summed to see whether it works.
const TRIED: usize = 1000;

impl Peers {
    /// These peers, which sum on their GPUs if they can. `train` is the config of the whole run. Blocks until all ranks
    /// have called it.
    ///
    /// # Errors
    /// [`Error::Config`] if a device cannot be opened, [`Error::Peer`] if a rank has left.
    pub(in crate::train) fn with_nccl(self, train: &TrainConfig) -> Result<Self> {
        if !matches!(self.link, Link::Threads(_)) || train.device != "cuda" {
            return Ok(self);
        }
        let of = |&number| device::open(&TrainConfig { devices: vec![number], ..train.clone() });
        let devices = train.devices.iter().map(of).collect::<Result<_>>();
        let nccl = Nccl { devices: self.agree(devices)? };
        let works = nccl.works(self.world.rank);
        let all_work = self.share(vec![u8::from(works)])?.iter().all(|works| works == &[1]);
        if !all_work && self.is_first() {
            tracing::warn!(
                "NCCL does not sum on these GPUs: gradients are copied to the host and summed there"
            );
        }
        Ok(Self { nccl: all_work.then_some(nccl), ..self })
    }
}

impl Nccl {
    /// Whether the sum of some numbers is right.
    fn works(&self, rank: usize) -> bool {
        let ranks = self.devices.len();
        let mine = (0..TRIED).map(|at| (at * (rank + 1)) as f32).collect::<Vec<_>>();
        let sum = |at: usize| (at * ranks * (ranks + 1) / 2) as f32;
        // burn panics where the library is missing.
        let summed = catch_unwind(AssertUnwindSafe(|| {
            let mine = Tensor::<1>::from_floats(mine.as_slice(), &self.devices[rank]);
            self.add(mine).try_into_data().ok().and_then(|data| data.try_to_vec::<f32>().ok())
        }));
        matches!(summed, Ok(Some(all)) if all.iter().enumerate().all(|(at, number)| *number == sum(at)))
    }

    /// The sum of all ranks' tensors.
    fn add<const D: usize>(&self, mine: Tensor<D>) -> Tensor<D> {
        all_reduce(mine, ReduceOperation::Sum, self.devices.clone()).resolve()
    }

    /// The sums of all ranks' gradients, for each parameter of `model` for which a rank has one.
    ///
    /// # Errors
    /// [`Error::Train`] if the device fails.
    pub(super) fn sum(
        &self,
        model: &impl Module,
        mut params: GradientsParams,
        has_gradient: &[bool],
        rank: usize,
    ) -> Result<GradientsParams> {
        let device = &self.devices[rank];
        model.visit(&mut Gradients { nccl: self, at: 0, has_gradient, params: &mut params, device });
        // The time that the sums take is theirs, and not that of what reads them.
        device.sync().map_err(|e| Error::Train(format!("the device failed: {e}")))?;
        Ok(params)
    }
}

/// Sums one gradient after another.
struct Gradients<'a> {
    nccl: &'a Nccl,
    /// The parameter's place in the model.
    at: usize,
    has_gradient: &'a [bool],
    params: &'a mut GradientsParams,
    device: &'a Device,
}

impl ModuleVisitor for Gradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.at += 1;
        if !self.has_gradient[self.at - 1] {
            return;
        }
        // A rank may have had no targets for it.
        let zeros = || Tensor::zeros(param.lazy_shape(), self.device);
        let mine = self.params.remove::<D>(param.id).unwrap_or_else(zeros);
        self.params.register(param.id, self.nccl.add(mine));
    }
}
