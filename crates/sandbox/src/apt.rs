// SPDX-License-Identifier: Apache-2.0
//! The package client of Debian and its kin, with a state of its own below Wringer's cache: the machine's sources, keys and
//! proxies, but private package lists and a private archive. Works as an ordinary user, and changes nothing of the machine's.
