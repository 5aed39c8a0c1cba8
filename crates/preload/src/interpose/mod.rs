// SPDX-License-Identifier: Apache-2.0
//! The library: what it does when a program loads it, and the functions that it puts in front of the C library's.

mod calls;
mod changed_descriptors;
mod files;
mod hold;
mod next;
mod sys;

use crate::shared::{MAGIC, MAPS, MOST_MAPS, Shared};
use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static ATTACHED: [AtomicPtr<Shared>; MOST_MAPS] = [const { AtomicPtr::new(null_mut()) }; MOST_MAPS];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The slow directories of this process.
fn maps() -> impl Iterator<Item = &'static Shared> {
    let count = COUNT.load(Ordering::Acquire);
    // SAFETY: each of the first COUNT pointers points to a map that attach has made, and that is never unmapped.
    ATTACHED.iter().take(count).filter_map(|map| unsafe { map.load(Ordering::Relaxed).as_ref() })
}

fn map(number: usize) -> Option<&'static Shared> {
    // SAFETY: the pointer is null, or it points to a map that attach has made, and that is never unmapped.
    ATTACHED.get(number).and_then(|map| unsafe { map.load(Ordering::Acquire).as_ref() })
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn() = initialise;

extern "C" fn initialise() {
    next::find_all();
    let mut variable = [0u8; 64];
    let name = MAPS.as_bytes();
    let Some(start) = variable.get_mut(..name.len()) else { return };
    start.copy_from_slice(name);
    // SAFETY: the name ends with a zero; the program has not run yet, so nobody changes the environment.
    let value = unsafe { getenv(variable.as_ptr().cast()) };
    if value.is_null() {
        return;
    }
    // SAFETY: the value is a string of the environment, and ends with a zero.
    let value = unsafe { CStr::from_ptr(value) };
    for text in value.to_bytes().split(|byte| *byte == b',') {
        let mut numbers = text.split(|byte| *byte == b':').map(number);
        let (Some(Some(descriptor)), Some(Some(keeper))) = (numbers.next(), numbers.next()) else { continue };
        if let Some(map) = inherited(descriptor).or_else(|| of_keeper(keeper, descriptor)) {
            add(map);
        }
    }
}

fn add(map: &'static Shared) {
    let count = COUNT.load(Ordering::Relaxed);
    if let Some(place) = ATTACHED.get(count) {
        map.attached.fetch_add(1, Ordering::Relaxed);
        place.store(core::ptr::from_ref(map).cast_mut(), Ordering::Relaxed);
        COUNT.store(count + 1, Ordering::Release);
    }
}

fn number(text: &[u8]) -> Option<i32> {
    let digits = text.iter().map(|byte| byte.checked_sub(b'0').filter(|digit| *digit < 10));
    digits.into_iter().try_fold(0i32, |number, digit| number.checked_mul(10)?.checked_add(digit?.into()))
}

fn inherited(descriptor: i32) -> Option<&'static Shared> {
    let file = sys::file(descriptor)?;
    if file.size != size_of::<Shared>() as u64 {
        return None;
    }
    let mapped = sys::map_shared(descriptor, size_of::<Shared>())?.cast::<Shared>();
    // SAFETY: the mapping is as large as the type, stays for ever, and every bit pattern is valid.
    let shared = unsafe { mapped.as_ref()? };
    (shared.magic.load(Ordering::Acquire) == MAGIC).then_some(shared)
}

fn of_keeper(pid: i32, descriptor: i32) -> Option<&'static Shared> {
    let mut path = sys::Path::new();
    path.push(b"/proc/").push_number(pid).push(b"/fd/").push_number(descriptor);
    let opened = sys::open(&path)?;
    let shared = inherited(opened);
    sys::close(opened);
    shared
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    #[cfg(wringer_library)]
    fn abort() -> !;
}

#[cfg(wringer_library)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: takes nothing and does not return. Nothing here panics: what may be missing is an Option.
    unsafe { abort() }
}
