// SPDX-License-Identifier: Apache-2.0
//! Reads compressed files as the text before compression.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTANDARD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The most memory for decompression that a file may ask for: eight times as much as files of `zstd -19` and heaptrack do.
const MOST_WINDOW: u64 = 64 << 20;

/// Decompresses input of gzip or zstd, which the first bytes tell; other input is read as it is. After everything that could be read, data that break
/// off are an error of the kind `UnexpectedEof`, and other damage is an error of the kind `InvalidData`.
///
/// # Errors
/// Errors of the input.
pub fn plain<'a>(input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut input = BufReader::new(input);
    let beginning = input.fill_buf()?;
    Ok(match () {
        () if beginning.starts_with(GZIP) => Box::new(Gzip(MultiGzDecoder::new(input))),
        () if beginning.starts_with(ZSTANDARD) => {
            let mut decoder = FrameDecoder::new();
            decoder.set_max_window_size(MOST_WINDOW);
            Box::new(Zstandard { input, decoder, is_in_frame: false })
        }
        () => Box::new(input),
    })
}

struct Gzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => io::Error::new(ErrorKind::InvalidData, error),
            _ => error,
        })
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
