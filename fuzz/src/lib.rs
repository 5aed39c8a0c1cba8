// SPDX-License-Identifier: Apache-2.0
//! What each fuzz target does with its bytes.

use heap::{Format, Holdings, NoSymbols, Outline};

/// All that can be asked of a file of this format; others are not looked at.
pub fn read_all(bytes: &[u8], format: Format) {
    if Format::of(bytes) == Some(format) {
        let _ = read_plain(|| Ok(Box::new(bytes)));
    }
    if format == Format::Massif {
        let _ = heap::ms_print::print(bytes, || Ok(bytes), &heap::ms_print::Options::default(), &mut std::io::sink());
    }
}

/// The same of a compressed file.
pub fn read_compressed(bytes: &[u8]) {
    let _ = read_plain(|| Ok(heap::plain(bytes)?));
}

fn read_plain<'a>(open: impl Fn() -> Result<Box<dyn std::io::Read + 'a>, heap::Error>) -> Result<(), heap::Error> {
    let outline = Outline::read(open()?)?;
    let places: Vec<usize> = outline.with_trees().collect();
    let mut before = Holdings::default();
    heap::each_tree(open()?, &outline, &places, &mut NoSymbols, &mut |_, tree| {
        let _ = heap::folded::write(&tree, &mut std::io::sink());
        heap::flame::flames(&tree, 0);
        let holdings = Holdings::of(&tree);
        heap::growth(&before, &holdings);
        before = holdings;
    })
}
