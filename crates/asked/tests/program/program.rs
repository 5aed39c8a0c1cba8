// SPDX-License-Identifier: Apache-2.0
//! Holds memory of malloc. Each line of its input names how many more blocks it takes, and of how many bytes; it answers each line with a line. It ends when
//! its input ends.
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
