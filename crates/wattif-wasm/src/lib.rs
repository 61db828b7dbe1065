//! The simulator for a browser: texts in, texts and bytes out; everything else is [`wattif::report::lab`].
//!
//! No tool makes glue of this: the page asks for room with [`wattif_input`], writes a request into it, calls [`wattif_answer`] and
//! reads what [`wattif_json`] and [`wattif_bytes`] point at, until the next call. The one import tells the page how far a
//! run is.

use std::cell::RefCell;
use wattif::report::lab::{Answer, answer};

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Answer> = RefCell::new(Answer::default());
}

/// What the page gives us.
#[cfg(target_arch = "wasm32")]
mod page {
    #![expect(unsafe_code, reason = "a declaration of what the page exports; it takes a number")]
    #[link(wasm_import_module = "page")]
    unsafe extern "C" {
        pub safe fn progress(share: f64);
    }
}

/// Without a page there is nobody to tell.
#[cfg(not(target_arch = "wasm32"))]
mod page {
    pub fn progress(_: f64) {}
}

/// Room for a request of so many bytes.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn wattif_input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Answer the request; returns the length of the answer's JSON.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn wattif_answer() -> usize {
    let request = INPUT.with_borrow(|input| String::from_utf8_lossy(input).into_owned());
    let found = answer(&request, &|share| page::progress(share));
    let length = found.json.len();
    ANSWER.set(found);
    length
}

/// The answer's JSON.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn wattif_json() -> *const u8 {
    ANSWER.with_borrow(|answer| answer.json.as_ptr())
}

/// The answer's bytes.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn wattif_bytes() -> *const u8 {
    ANSWER.with_borrow(|answer| answer.bytes.as_ptr())
}

/// How many bytes.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn wattif_bytes_length() -> usize {
    ANSWER.with_borrow(|answer| answer.bytes.len())
}
