// SPDX-License-Identifier: Apache-2.0
//! Reads compressed files as the text before compression.

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTANDARD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const BZIP2: &[u8] = b"BZh";
/// Of lz4's frames, and of its format before them.
const LZ4: [&[u8]; 2] = [&[0x04, 0x22, 0x4d, 0x18], &[0x02, 0x21, 0x4c, 0x18]];
/// The most memory for decompression that a file may ask for: eight times as much as files of `zstd -19` and heaptrack do, and as much as those of `xz -9`.
const MOST_WINDOW_MIB: u32 = 64;
const MOST_WINDOW: u64 = (MOST_WINDOW_MIB as u64) << 20;
/// The window, and what the decoder of xz needs beside it.
const MOST_KIB_OF_XZ: u32 = (MOST_WINDOW_MIB + 1) << 10;

/// Decompresses input of gzip, zstd, xz or bzip2, which the first bytes tell; other input is read as it is. After everything that could be read, data that
/// break off are an error of the kind `UnexpectedEof`, and other damage is an error of the kind `InvalidData`.
///
/// # Errors
/// Errors of the input.
pub fn plain<'a>(input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut input = BufReader::new(input);
    let beginning = input.fill_buf()?;
    Ok(match () {
        () if beginning.starts_with(GZIP) => Box::new(Lasting::of(MultiGzDecoder::new(input))),
        () if beginning.starts_with(BZIP2) => Box::new(Lasting::of(MultiBzDecoder::new(input))),
        () if beginning.starts_with(XZ) => {
            Box::new(Lasting::of(Xz { input, decoder: XzStream::new_mem_limit(true, MOST_KIB_OF_XZ) }))
        }
        () if beginning.starts_with(ZSTANDARD) => {
            let mut decoder = FrameDecoder::new();
            decoder.set_max_window_size(MOST_WINDOW);
            Box::new(Zstandard { input, decoder, is_in_frame: false })
        }
        () => Box::new(input),
    })
}

/// What a text that [`plain`] has left as it was is compressed by, and the command that decompresses it.
pub(crate) fn packed_by(beginning: &[u8]) -> Option<&'static str> {
    LZ4.iter().any(|it| beginning.starts_with(it)).then_some("it is compressed by lz4: `lz4 -d` it first")
}

/// A decoder whose first complaint lasts: it is never asked again after it. Whatever it complains about is damage of the data.
struct Lasting<R> {
    decoder: R,
    failed: Option<(ErrorKind, String)>,
}

impl<R> Lasting<R> {
    fn of(decoder: R) -> Self {
        Self { decoder, failed: None }
    }
}

impl<R: Read> Read for Lasting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((kind, words)) = &self.failed {
            return Err(io::Error::new(*kind, words.clone()));
        }
        self.decoder.read(buffer).map_err(|error| {
            let kind = match error.kind() {
                ErrorKind::UnexpectedEof => ErrorKind::UnexpectedEof,
                ErrorKind::Interrupted => return error,
                _ if error.raw_os_error().is_some() => return error,
                _ => ErrorKind::InvalidData,
            };
            let words = error.to_string();
            self.failed = Some((kind, words.clone()));
            io::Error::new(kind, words)
        })
    }
}

/// Stream after stream, as `xz` writes them for `cat a.xz b.xz`.
struct Xz<R> {
    input: R,
    decoder: XzStream,
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let input = self.input.fill_buf()?;
            let (is_end, action) = (input.is_empty(), if input.is_empty() { Action::Finish } else { Action::Run });
            let done = self.decoder.process(input, buffer, action)?;
            self.input.consume(done.bytes_consumed);
            if done.bytes_produced > 0 || done.status == Status::StreamEnd {
                return Ok(done.bytes_produced);
            }
            if is_end {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the compressed data end too early"));
            }
        }
        Ok(0)
    }
}

/// Frame after frame, as `zstd` writes them for `cat a.zst b.zst`.
struct Zstandard<R> {
    input: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 || !self.is_in_frame {
            if self.is_in_frame && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.input, one).map_err(|error| damage(&error))?;
                continue;
            }
            self.is_in_frame = false;
            if self.input.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.is_in_frame = self.next_frame()?;
        }
        self.decoder.read(buffer)
    }
}

impl<R: BufRead> Zstandard<R> {
    /// Begins the next frame. `false`: it holds no data, and was skipped.
    fn next_frame(&mut self) -> io::Result<bool> {
        match self.decoder.init(&mut self.input) {
            Ok(()) => Ok(true),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                io::copy(&mut (&mut self.input).take(length.into()), &mut io::sink())?;
                Ok(false)
            }
            Err(error) => Err(damage(&error)),
        }
    }
}

/// The error for a damage. Only the words of the decoder's error tell whether the input has ended.
fn damage(error: &FrameDecoderError) -> io::Error {
    let words = error.to_string();
    let is_end = words.contains("failed to fill whole buffer");
    io::Error::new(if is_end { ErrorKind::UnexpectedEof } else { ErrorKind::InvalidData }, words)
}
