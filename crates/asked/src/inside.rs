// SPDX-License-Identifier: Apache-2.0
//! The library: its thread sleeps until Wringer asks, and then calls the malloc's function that returns the number of bytes.

use crate::shared::{
    ARENAS_OF_JEMALLOC, MAGIC, NO_FUNCTION, OF_GLIBC, OF_JEMALLOC, OF_TCMALLOC, PROFILE_OF_JEMALLOC,
    PROFILE_OF_TCMALLOC, REFUSED, Shared, TOLD, VARIABLE,
};
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::{size_of, transmute};
use core::ptr::{from_mut, from_ref, null, null_mut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn() = initialise;

/// The thread's stack, and the memory that the server's libraries keep for each thread.
const STACK_BYTES: usize = 512 << 10;
/// `pthread_attr_t` and `sigset_t` are smaller on all machines (bits/pthreadtypes-arch.h, bits/types/__sigset_t.h).
type Room = [u64; 32];
const DETACHED: c_int = 1;
const SET_MASK: c_int = 2;

extern "C" fn initialise() {
    let Some(shared) = inherited() else { return };
    let (mut attributes, mut all, mut before): (Room, Room, Room) = ([0; 32], [0; 32], [0; 32]);
    let (attributes, all, before) =
        (from_mut(&mut attributes).cast(), from_mut(&mut all).cast(), from_mut(&mut before).cast());
    let mut thread = 0_u64;
    // SAFETY: each has the room that its type needs; the new thread inherits the mask, and this one gets its own back.
    unsafe {
        if pthread_attr_init(attributes) != 0 {
            return;
        }
        pthread_attr_setdetachstate(attributes, DETACHED);
        pthread_attr_setstacksize(attributes, STACK_BYTES);
        sigfillset(all);
        pthread_sigmask(SET_MASK, all, before);
        let argument = from_ref(shared).cast_mut().cast();
        if pthread_create(from_mut(&mut thread), attributes, answer, argument) == 0 {
            shared.pid.store(getpid().unsigned_abs(), Release);
        }
        pthread_sigmask(SET_MASK, before, null_mut());
        pthread_attr_destroy(attributes);
    }
}

fn inherited() -> Option<&'static Shared> {
    let mut name = [0_u8; 32];
    name.get_mut(..VARIABLE.len())?.copy_from_slice(VARIABLE.as_bytes());
    // SAFETY: the name ends with a zero; the program has not run yet, so nobody changes the environment.
    let value = unsafe { getenv(name.as_ptr().cast()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment.
    let text = unsafe { CStr::from_ptr(value) }.to_bytes();
    let digits = text.iter().map(|byte| byte.checked_sub(b'0').filter(|digit| *digit < 10));
    let descriptor =
        digits.into_iter().try_fold(0i32, |number, digit| number.checked_mul(10)?.checked_add(digit?.into()))?;
    const READ_WRITE: c_int = 3;
    const SHARED: c_int = 1;
    // SAFETY: a new mapping where the kernel wants it.
    let mapped = unsafe { mmap(null_mut(), size_of::<Shared>(), READ_WRITE, SHARED, descriptor, 0) };
    if mapped as isize == -1 {
        return None;
    }
    // SAFETY: the mapping stays for ever, and every bit pattern is valid. A descriptor of another file is shorter, or lacks the mark.
    let shared = unsafe { mapped.cast::<Shared>().as_ref()? };
    (shared.magic.load(Acquire) == MAGIC).then_some(shared)
}

extern "C" fn answer(shared: *mut c_void) -> *mut c_void {
    // SAFETY: what `initialise` gave, which is never unmapped.
    let Some(shared) = (unsafe { shared.cast::<Shared>().as_ref() }) else { return null_mut() };
    let mut last = shared.answered.load(Acquire);
    loop {
        let question = shared.question.load(Acquire);
        if question == last {
            futex(&shared.question, WAIT, last);
            continue;
        }
        let told = match shared.by.load(Acquire) {
            OF_GLIBC => of_glibc(),
            OF_JEMALLOC => of_jemalloc(),
            OF_TCMALLOC => of_tcmalloc(),
            ARENAS_OF_JEMALLOC => arenas_of_jemalloc(),
            PROFILE_OF_JEMALLOC => profile_of_jemalloc(),
            PROFILE_OF_TCMALLOC => profile_of_tcmalloc(),
            _ => Err(NO_FUNCTION),
        };
        shared.bytes.store(told.unwrap_or(0), Release);
        shared.outcome.store(told.err().unwrap_or(TOLD), Release);
        shared.answered.store(question, Release);
        futex(&shared.answered, WAKE, i32::MAX.unsigned_abs());
        last = question;
    }
}

/// mallinfo(3): the bytes that all arenas have handed out, and the blocks that are mappings of their own. Bytes in the threads' caches count as handed out.
fn of_glibc() -> Result<u64, u32> {
    let found = function(c"mallinfo2").ok_or(NO_FUNCTION)?;
    // SAFETY: the C library's function, which returns this structure (malloc.h); a structure of this size is returned in the caller's memory.
    let Mallinfo(counts) = unsafe { transmute::<*mut c_void, extern "C" fn() -> Mallinfo>(found) }();
    const IN_MAPPINGS: usize = 4;
    const HANDED_OUT: usize = 7;
    let sum = counts.get(IN_MAPPINGS).zip(counts.get(HANDED_OUT)).map(|(mapped, arenas)| mapped + arenas);
    sum.map(|bytes| bytes as u64).ok_or(REFUSED)
}

/// `struct mallinfo2`, of ten sizes (malloc.h).
#[repr(C)]
struct Mallinfo([usize; 10]);

/// jemalloc(3): `stats.allocated`, read anew by `epoch`. Bytes in the threads' caches are subtracted, where this version of jemalloc counts them.
fn of_jemalloc() -> Result<u64, u32> {
    let mallctl = mallctl()?;
    renew(mallctl);
    let read = |name: &CStr| {
        let (mut value, mut length) = (0_usize, size_of::<usize>());
        let outcome = mallctl(name.as_ptr(), from_mut(&mut value).cast(), from_mut(&mut length), null_mut(), 0);
        (outcome == 0).then_some(value as u64)
    };
    let allocated = read(c"stats.allocated").ok_or(REFUSED)?;
    // 4096 stands for all arenas (MALLCTL_ARENAS_ALL)
    Ok(allocated.saturating_sub(read(c"stats.arenas.4096.tcache_bytes").unwrap_or(0)))
}

/// jemalloc(3), `epoch`: its figures are read anew.
fn renew(mallctl: Mallctl) {
    let mut epoch = 1_u64;
    mallctl(c"epoch".as_ptr(), null_mut(), null_mut(), from_mut(&mut epoch).cast(), size_of::<u64>());
}

/// jemalloc(3): the arenas below `arenas.narenas` that are in use, by `arena.<i>.initialized`.
fn arenas_of_jemalloc() -> Result<u64, u32> {
    let mallctl = mallctl()?;
    renew(mallctl);
    let (mut limit, mut length) = (0_u32, size_of::<u32>());
    let outcome =
        mallctl(c"arenas.narenas".as_ptr(), from_mut(&mut limit).cast(), from_mut(&mut length), null_mut(), 0);
    let to_numbers = function(c"mallctlnametomib").ok_or(NO_FUNCTION)?;
    let by_numbers = function(c"mallctlbymib").ok_or(NO_FUNCTION)?;
    // SAFETY: jemalloc's functions, as its manual has them.
    let (to_numbers, by_numbers) = unsafe {
        (transmute::<*mut c_void, NameToMib>(to_numbers), transmute::<*mut c_void, MallctlByMib>(by_numbers))
    };
    // the name as numbers; the second one is the arena
    let (mut name, mut parts) = ([0_usize; 3], 3_usize);
    if outcome != 0 || to_numbers(c"arena.0.initialized".as_ptr(), name.as_mut_ptr(), from_mut(&mut parts)) != 0 {
        return Err(REFUSED);
    }
    let mut count = 0;
    for arena in 0..limit {
        name[1] = arena as usize;
        let (mut used, mut length) = (false, size_of::<bool>());
        let outcome =
            by_numbers(name.as_ptr(), parts, from_mut(&mut used).cast(), from_mut(&mut length), null_mut(), 0);
        count += u64::from(outcome == 0 && used);
    }
    Ok(count)
}

type NameToMib = extern "C" fn(*const c_char, *mut usize, *mut usize) -> c_int;
type MallctlByMib = extern "C" fn(*const usize, usize, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
type Mallctl = extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

fn mallctl() -> Result<Mallctl, u32> {
    let found = function(c"mallctl").ok_or(NO_FUNCTION)?;
    // SAFETY: jemalloc's function, as its manual has it.
    Ok(unsafe { transmute::<*mut c_void, Mallctl>(found) })
}

/// jemalloc(3), `prof.dump` without a name: the file is named by `opt.prof_prefix` and a number that rises.
fn profile_of_jemalloc() -> Result<u64, u32> {
    match mallctl()?(c"prof.dump".as_ptr(), null_mut(), null_mut(), null_mut(), 0) {
        0 => Ok(0),
        _ => Err(REFUSED),
    }
}

/// gperftools, heap-profiler.h: the file is named by `HEAPPROFILE` and a number that rises. It returns nothing: the asking program looks
/// whether the file is there.
fn profile_of_tcmalloc() -> Result<u64, u32> {
    let found = function(c"HeapProfilerDump").ok_or(NO_FUNCTION)?;
    // SAFETY: gperftools' function, as its header has it.
    let dump = unsafe { transmute::<*mut c_void, extern "C" fn(*const c_char)>(found) };
    dump(c"asked".as_ptr());
    Ok(0)
}

/// gperftools, malloc_extension_c.h and malloc_extension.h.
fn of_tcmalloc() -> Result<u64, u32> {
    let found = function(c"MallocExtension_GetNumericProperty").ok_or(NO_FUNCTION)?;
    // SAFETY: gperftools' function, as its header has it.
    let property = unsafe { transmute::<*mut c_void, extern "C" fn(*const c_char, *mut usize) -> c_int>(found) };
    let mut value = 0_usize;
    match property(c"generic.current_allocated_bytes".as_ptr(), from_mut(&mut value)) {
        0 => Err(REFUSED),
        _ => Ok(value as u64),
    }
}

/// The first one in the linker's order.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero; null stands for the default order (RTLD_DEFAULT).
    Some(unsafe { dlsym(null_mut(), name.as_ptr()) }).filter(|found| !found.is_null())
}

const WAIT: c_int = 0;
const WAKE: c_int = 1;

/// futex(2), not private to this process.
fn futex(word: &AtomicU32, operation: c_int, value: u32) {
    #[cfg(target_arch = "x86_64")]
    const FUTEX: c_long = 202;
    #[cfg(target_arch = "aarch64")]
    const FUTEX: c_long = 98;
    // SAFETY: the word lives for ever; without a timeout.
    unsafe { syscall(FUTEX, word.as_ptr(), operation, value, null::<c_void>(), null::<c_void>(), 0) };
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn getpid() -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        from: i64,
    ) -> *mut c_void;
    fn syscall(number: c_long, ...) -> c_long;
    fn sigfillset(set: *mut c_void) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const c_void, before: *mut c_void) -> c_int;
    fn pthread_attr_init(attributes: *mut c_void) -> c_int;
    fn pthread_attr_destroy(attributes: *mut c_void) -> c_int;
    fn pthread_attr_setdetachstate(attributes: *mut c_void, state: c_int) -> c_int;
    fn pthread_attr_setstacksize(attributes: *mut c_void, bytes: usize) -> c_int;
    fn pthread_create(
        thread: *mut u64,
        attributes: *const c_void,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    #[cfg(wringer_library)]
    fn abort() -> !;
}

#[cfg(wringer_library)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: takes nothing and does not return. Nothing here panics: what may be missing is an Option.
    unsafe { abort() }
}
