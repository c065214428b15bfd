performance.mark('petrel-script') // marks the start of the script before anything else runs; test/speed.ts measures from here
