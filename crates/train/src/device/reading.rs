//! Reads numbers from a device, also while it goes on with other work.
//!
//! A device does its work in order. A reader of a number waits for all work that was queued before the request. So the
//! request is made before the next step is queued, and the answer is awaited after. burn copies when the bytes are
//! first accessed, and waits there. So each reading has a thread that accesses them and ends with the reading.

use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use burn::tensor::{AllocationProperty, StreamId, Tensor, TensorData};

use millstream::error::{Error, Result};
use millstream::meter::stage_span;

/// Numbers on their way from a device, which continues to work.
#[derive(Debug)]
pub(crate) enum Reading {
    /// Here already, or nobody has asked for them yet.
    Data(Arc<TensorData>),
    Coming(JoinHandle<Result<Vec<f32>>>),
    Failed(Error),
}

impl Reading {
    /// Hands all work that makes `numbers` to the device, and asks for them. It does not wait for the device.
    pub(crate) fn begin(numbers: Tensor<1>) -> Self {
        let _span = stage_span!("trainer", "flush").entered();
        let data = match numbers.try_into_data() {
            Ok(data) => Arc::new(data),
            Err(e) => return Self::Failed(failed(e)),
        };
        if data.bytes().property() != AllocationProperty::Device {
            return Self::Data(data);
        }
        // On the stream of this thread, where the work is: another stream would hold memory of its own.
        let (stream, asked) = (StreamId::current(), Arc::clone(&data));
        let reader = move || stream.executes(|| numbers_of(&asked));
        let thread = Builder::new().name("reading".to_owned()).spawn(reader);
        // If the system refuses a thread, the numbers are read on demand, and also wait for later work.
        thread.map_or(Self::Data(data), Self::Coming)
    }

    pub(crate) fn finish(self) -> Result<Vec<f32>> {
        let _span = stage_span!("trainer", "results").entered();
        match self {
            Self::Data(data) => numbers_of(&data),
            Self::Coming(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Self::Failed(error) => Err(error),
        }
    }
}

/// Reads numbers, and waits for the device to have them.
pub(crate) fn read(numbers: Tensor<1>) -> Result<Vec<f32>> {
    let _span = stage_span!("trainer", "results").entered();
    numbers_of(&numbers.try_into_data().map_err(failed)?)
}

fn numbers_of(data: &TensorData) -> Result<Vec<f32>> {
    data.try_to_vec::<f32>().map_err(|e| failed(format!("{e:?}")))
}

/// The error of a device.
pub(crate) fn failed(e: impl Display) -> Error {
    Error::Train(format!("the device failed: {e}"))
}
