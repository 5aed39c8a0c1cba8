// SPDX-License-Identifier: Apache-2.0
//! Chooses the mechanism that slows the named path.

use crate::commands::standing::Slowed;
use crate::exit::{Exit, Failure, Outcome};
use clap::ValueEnum;
use diskmodel::Model;
use squeeze::device::{Timing, delays};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mechanism {
    /// a FUSE layer over a directory: to the microsecond, distributions, limits
    Fuse,
    /// the kernel's delay target over an unmounted device: whole milliseconds, rounded up to ticks
    DeviceMapper,
    /// a loop device over a FUSE file, for an image or an unmounted device: a whole disk with all that the FUSE layer can
    Loop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Device,
    File,
    /// Or nothing: the mechanism's own look says so.
    Directory,
}

/// # Errors
/// Exit code 2: the asked mechanism does not work for this kind of path.
pub fn choose(asked: Option<Mechanism>, path: &Path, model: &Model) -> Result<Mechanism, Failure> {
    let named = match path.metadata().map(|it| it.file_type()) {
        Ok(kind) if kind.is_block_device() => Named::Device,
        Ok(kind) if kind.is_file() => Named::File,
        Ok(kind) if !kind.is_dir() => {
            let what = format!("{} is neither a directory nor a block device, nor an image file", path.display());
            return Err(Failure::message(Exit::Missing, what).hint("name what holds the data"));
        }
        _ => Named::Directory,
    };
    let device_mapper_can = || delays(model, path).is_ok() && matches!(Timing::here(), Ok(Some(_)));
    match (asked, named) {
        (None, Named::Device) if device_mapper_can() => Ok(Mechanism::DeviceMapper),
        (None | Some(Mechanism::Loop), Named::Device | Named::File) => Ok(Mechanism::Loop),
        (None | Some(Mechanism::Fuse), Named::Directory) => Ok(Mechanism::Fuse),
        (Some(Mechanism::DeviceMapper), Named::Device) => Ok(Mechanism::DeviceMapper),
        (Some(asked), named) => Err(unfit(asked, named, path)),
    }
}

/// Refuses to change the mechanism of a path that is slow already.
///
/// # Errors
/// Exit code 3: another mechanism was asked for.
pub fn refuse_another(asked: Option<Mechanism>, slowed: &Slowed) -> Outcome {
    let there = match slowed {
        Slowed::Directory(_) => Mechanism::Fuse,
        Slowed::Device(_) => Mechanism::DeviceMapper,
        Slowed::Loop(_) => Mechanism::Loop,
    };
    if asked.is_none_or(|asked| asked == there) {
        return Ok(());
    }
    let shown = slowed.path().display();
    let what = format!("{shown} is slowed down already, by --mechanism {}", name_of(there));
    Err(Failure::message(Exit::Missing, what)
        .hint(format!("leave --mechanism out to change the delay, or `wringer disk release {shown}` first")))
}

fn name_of(mechanism: Mechanism) -> String {
    mechanism.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn unfit(asked: Mechanism, named: Named, path: &Path) -> Failure {
    let shown = path.display();
    let (kind, instead) = match named {
        Named::Device => ("a block device", "device-mapper and loop"),
        Named::File => ("a file", "loop"),
        Named::Directory if path.exists() => ("a directory", "fuse"),
        Named::Directory => {
            return Failure::message(Exit::Missing, format!("there is no {shown}")).hint("name one that exists");
        }
    };
    Failure::message(Exit::Usage, format!("--mechanism {} is not for {kind}, as {shown} is", name_of(asked)))
        .hint(format!("for {kind}: {instead}; without --mechanism the tool chooses"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::DelayMode;

    #[test]
    fn what_is_named_decides_and_what_does_not_fit_is_told() {
        let model = Model::none(DelayMode::Add);
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = here.join("Cargo.toml");
        let chosen = |asked, path| choose(asked, path, &model).map_err(|failure| format!("{failure:?}"));
        assert_eq!(chosen(None, here), Ok(Mechanism::Fuse));
        assert_eq!(chosen(None, &file), Ok(Mechanism::Loop));
        assert_eq!(chosen(Some(Mechanism::Loop), &file), Ok(Mechanism::Loop));
        let said = chosen(Some(Mechanism::DeviceMapper), &file).expect_err("a file is no device");
        assert!(said.contains("--mechanism device-mapper is not for a file"), "{said}");
        assert!(chosen(Some(Mechanism::Loop), here).is_err());
        assert!(chosen(Some(Mechanism::Fuse), &file).is_err());
    }
}
