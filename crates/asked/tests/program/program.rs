// SPDX-License-Identifier: Apache-2.0
//! Holds memory by malloc: for each line that it reads, so many blocks of so many bytes more; answers each with a line. Ends with its input.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::BufRead as _;

fn main() {
    let mut held: Vec<Vec<u8>> = Vec::new();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (blocks, bytes) = line.split_once(' ').unwrap();
        let (blocks, bytes): (usize, usize) = (blocks.parse().unwrap(), bytes.parse().unwrap());
        if blocks == 0 {
            held.clear();
        }
        held.extend((0..blocks).map(|_| vec![1; bytes]));
        println!("{}", held.len());
    }
}
