//! Custom formats: files of records that a program reads with its own code.
//!
//! The text of a file goes in, as bytes from any place on; the text of one record after the other comes out. A place is
//! an offset in bytes, so a cursor resumes with one seek.

use std::fmt::Debug;
use std::io::{self, BufRead, ErrorKind, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How records lie in the files of a source of kind `custom`.
///
/// The config names the format, and the program brings the code, with
/// [`LoaderBuilder::format`](crate::loader::LoaderBuilder::format) or
/// [`SourceConfig::custom`](crate::config::SourceConfig::custom). Everything else is as for other formats:
/// compression, stores, reading ahead, small files cut between records, `max_document_bytes`, `on_error`, the token
/// cache and [`prepare`](crate::prepare::prepare).
///
/// Which records a file has may depend on its bytes and on the format's name alone: a cursor is refused if the name has
/// changed.
///
/// ```
/// use std::io;
///
/// use millstream::source::{RecordFile, RecordFormat, RecordReader, RecordText};
///
/// /// A record is its length (u32, little-endian) and so many bytes of text.
/// #[derive(Clone, Copy, Debug)]
/// struct Records;
///
/// impl RecordFormat for Records {
///     fn open(&self, _: &mut dyn RecordFile) -> io::Result<Box<dyn RecordReader>> {
///         Ok(Box::new(Self))
///     }
/// }
///
/// impl RecordReader for Records {
///     fn read(&mut self, file: &mut dyn RecordFile, text: &mut RecordText) -> io::Result<bool> {
///         if file.fill_buf()?.is_empty() {
///             return Ok(false);
///         }
///         let mut len = [0; 4];
///         file.read_exact(&mut len)?;
///         text.append(file, u32::from_le_bytes(len).into())?;
///         Ok(true)
///     }
/// }
/// ```
pub trait RecordFormat: Debug + Send + Sync {
    /// Opens a file: reads what precedes its records, and leaves `file` where the first one begins.
    ///
    /// # Errors
    /// The problem of a file of which no record can be read. It is bad input, and `on_error` decides.
    fn open(&self, file: &mut dyn RecordFile) -> io::Result<Box<dyn RecordReader>>;
}

/// Reads the records of one open file.
pub trait RecordReader: Debug + Send {
    /// Reads the record that begins where `file` stands, writes its text into `text`, which is empty, and leaves `file`
    /// where the next record begins. Returns false if no record is left.
    ///
    /// The next call may be for any other record of the file: the result may not depend on the calls before. A record
    /// without text is no document.
    ///
    /// # Errors
    /// The problem of a record behind which no other can be found. It is bad input, and the last of its file. If only
    /// the text is bad, [refuse](RecordText::refuse) it instead.
    fn read(&mut self, file: &mut dyn RecordFile, text: &mut RecordText) -> io::Result<bool>;
}

/// The text of a file, decompressed, wherever it is stored.
///
/// Seeking from the end works only in files that are not compressed. In one that is, seeking back reads it again from
/// its start.
pub trait RecordFile: BufRead + Seek {
    /// Its path or URL, as errors name it.
    fn path(&self) -> &Path;
}

/// Takes the text of one record. Holds as many bytes of it as a document may have, and counts the rest.
#[derive(Debug)]
pub struct RecordText {
    bytes: Vec<u8>,
    len: u64,
    most: usize,
    problem: Option<String>,
}

impl RecordText {
    /// No text, which holds up to `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), len: 0, most, problem: None }
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.len, self.problem) = (0, None);
    }

    /// The bytes that are held, and how many there are; or why the text is refused.
    pub(crate) fn held(&self) -> Result<(&[u8], u64), &str> {
        match &self.problem {
            None => Ok((self.bytes.as_slice(), self.len)),
            Some(problem) => Err(problem.as_str()),
        }
    }

    /// Appends the next `len` bytes of `file`.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] if the file has fewer, and those of reading it.
    pub fn append(&mut self, file: &mut dyn RecordFile, len: u64) -> io::Result<()> {
        match io::copy(&mut file.take(len), self)? {
            read if read == len => Ok(()),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Makes the record bad input, since its text cannot be used. `problem` says why.
    pub fn refuse(&mut self, problem: impl Into<String>) {
        self.problem = Some(problem.into());
    }
}

impl Write for RecordText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A custom format: its name, and the code that reads it.
///
/// Configs are written and compared with the name alone. One that was read from a file lacks the code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct CustomFormat {
    name: String,
    code: Option<Arc<dyn RecordFormat>>,
}

impl CustomFormat {
    /// A format under this name. The name is part of the order: include everything that the records depend on.
    pub fn new(name: impl Into<String>, format: impl RecordFormat + 'static) -> Self {
        Self { name: name.into(), code: Some(Arc::new(format)) }
    }

    /// The name, as configs have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The code, if the program gave it.
    pub(crate) fn code(&self) -> Option<&Arc<dyn RecordFormat>> {
        self.code.as_ref()
    }
}

impl PartialEq for CustomFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl From<String> for CustomFormat {
    fn from(name: String) -> Self {
        Self { name, code: None }
    }
}

impl From<CustomFormat> for String {
    fn from(format: CustomFormat) -> Self {
        format.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_a_text_is_held_than_a_document_may_have() {
        let mut text = RecordText::new(4);
        for part in ["ab", "cde", "f"] {
            text.write_all(part.as_bytes()).expect("room");
        }
        assert_eq!(text.held(), Ok((&b"abcd"[..], 6)));
        text.refuse("bad");
        assert_eq!(text.held(), Err("bad"));
        text.clear();
        assert_eq!(text.held(), Ok((&b""[..], 0)));
    }
}
