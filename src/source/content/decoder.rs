//! All decompressors behind one interface: stored bytes in, text out.

use std::fmt;

use liblzma::stream as xz;
use zstd::stream::raw as zstd_raw;
use zstd::stream::raw::Operation;

use super::Problem;
use crate::files::Codec;

/// The largest window that zstd knows, as a power of two.
const MOST_ZSTD_WINDOW_LOG: u32 = 31;

/// The most memory for an xz stream, in bytes: a window of 128 MiB, and the rest of its state.
const XZ_MEMORY: u64 = (128 + 8) << 20;

/// The decompressor of one member, frame or stream.
pub(super) enum Decoder {
    Gzip(flate2::Decompress),
    /// With the largest window that it allows, as a power of two.
    Zstd(zstd_raw::Decoder<'static>, u32),
    Bzip2(bzip2::Decompress),
    Xz(xz::Stream),
}

/// The result of a step.
#[derive(Debug)]
pub(super) struct DecoderStep {
    /// How many stored bytes it read.
    pub(super) taken: usize,
    /// How many bytes of text it wrote.
    pub(super) given: usize,
    /// Whether a member ended, or why it cannot be decompressed.
    pub(super) outcome: Result<bool, Fault>,
}

/// Why a member cannot be decompressed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Its bytes are invalid.
    Corrupt(String),
    /// The file ends within it.
    Truncated,
    /// It needs more memory than allowed.
    Large(String),
    /// Its window is larger than this power of two.
    Window(u32),
}

impl Fault {
    /// Describes the fault in a file of this compression.
    pub(super) fn what(&self, codec: Codec) -> String {
        match self {
            Self::Corrupt(what) => format!("the {codec} data is corrupt: {what}"),
            Self::Truncated => format!("the {codec} data is cut off"),
            Self::Large(what) => format!("the {codec} data cannot be decompressed: {what}"),
            Self::Window(log) => {
                format!("the {codec} data cannot be decompressed: its window is larger than 2^{log} bytes")
            }
        }
    }

    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::Corrupt(_) | Self::Truncated => Problem::ANEW,
            Self::Window(..MOST_ZSTD_WINDOW_LOG) => {
                "set zstd_window = \"2GiB\" for the source, or compress the file again with a smaller window"
            }
            Self::Large(_) | Self::Window(_) => "compress the file again with a smaller window",
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    fn new(codec: Codec, zstd_window: u64) -> Result<Self, Fault> {
        Ok(match codec {
            Codec::Gzip => Self::Gzip(flate2::Decompress::new_gzip(15)),
            Codec::Bzip2 => Self::Bzip2(bzip2::Decompress::new(false)),
            Codec::Xz => {
                let stream = xz::Stream::new_stream_decoder(XZ_MEMORY, xz::TELL_UNSUPPORTED_CHECK);
                Self::Xz(stream.map_err(|e| Fault::Large(e.to_string()))?)
            }
            Codec::Zstd => {
                let mut decoder = zstd_raw::Decoder::new().map_err(|e| Fault::Large(e.to_string()))?;
                let log = zstd_window.next_power_of_two().ilog2();
                let bound = zstd_raw::DParameter::WindowLogMax(log);
                decoder.set_parameter(bound).map_err(|e| Fault::Large(e.to_string()))?;
                Self::Zstd(decoder, log)
            }
        })
    }

    /// Returns a decompressor that is ready to begin a member. Reuses `idle` where that saves making a new one.
    pub(super) fn begin(codec: Codec, idle: Option<Self>, zstd_window: u64) -> Result<Self, Fault> {
        match idle {
            Some(Self::Zstd(mut decoder, log)) => {
                decoder.reinit().map_err(|e| Fault::Large(e.to_string()))?;
                Ok(Self::Zstd(decoder, log))
            }
            _ => Self::new(codec, zstd_window),
        }
    }

    /// Decompresses as much of `input` as fits into `text`, up to the end of a member.
    pub(super) fn step(&mut self, input: &[u8], text: &mut [u8]) -> DecoderStep {
        match self {
            Self::Gzip(decoder) => {
                let before = (decoder.total_in(), decoder.total_out());
                let status = decoder.decompress(input, text, flate2::FlushDecompress::None);
                let outcome = status
                    .map(|status| status == flate2::Status::StreamEnd)
                    .map_err(|e| Fault::Corrupt(e.message().unwrap_or("it does not inflate").to_owned()));
                DecoderStep::since(before, (decoder.total_in(), decoder.total_out()), outcome)
            }
            Self::Bzip2(decoder) => {
                let before = (decoder.total_in(), decoder.total_out());
                let outcome = decoder
                    .decompress(input, text)
                    .map(|status| status == bzip2::Status::StreamEnd)
                    .map_err(|e| Fault::Corrupt(e.to_string()));
                DecoderStep::since(before, (decoder.total_in(), decoder.total_out()), outcome)
            }
            Self::Xz(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let status = stream.process(input, text, xz::Action::Run);
                let after = (stream.total_in(), stream.total_out());
                let outcome = match status {
                    Ok(status) => Ok(status == xz::Status::StreamEnd),
                    Err(xz::Error::MemLimit) => Err(Fault::Large(format!(
                        "it needs {} MiB of memory, and may have {}",
                        xz_mebibytes(stream),
                        XZ_MEMORY >> 20
                    ))),
                    Err(e) => Err(Fault::Corrupt(e.to_string())),
                };
                DecoderStep::since(before, after, outcome)
            }
            Self::Zstd(decoder, log) => {
                let mut input = zstd_raw::InBuffer::around(input);
                let mut text = zstd_raw::OutBuffer::around(text);
                let hint = decoder.run(&mut input, &mut text);
                let outcome = hint.map(|hint| hint == 0).map_err(|e| {
                    let what = e.to_string();
                    if what.contains("too much memory") { Fault::Window(*log) } else { Fault::Corrupt(what) }
                });
                DecoderStep { taken: input.pos(), given: text.pos(), outcome }
            }
        }
    }
}

impl DecoderStep {
    fn since(before: (u64, u64), after: (u64, u64), outcome: Result<bool, Fault>) -> Self {
        Self { taken: (after.0 - before.0) as usize, given: (after.1 - before.1) as usize, outcome }
    }
}

/// How much memory an xz stream needs, in MiB, if its limit was too low.
fn xz_mebibytes(stream: &mut xz::Stream) -> u64 {
    // The library does not say, but refuses any lower limit.
    let (mut least, mut most) = (XZ_MEMORY >> 20, 1 << 13);
    while least < most {
        let middle = u64::midpoint(least, most);
        match stream.set_memlimit(middle << 20) {
            Ok(()) => most = middle,
            Err(_) => least = middle + 1,
        }
    }
    least
}
