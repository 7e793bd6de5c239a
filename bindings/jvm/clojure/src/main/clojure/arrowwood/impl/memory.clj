(ns arrowwood.impl.memory
  "Reads memory as numbers of one type."
  {:no-doc true}
  (:require
   [arrowwood.impl.arguments :refer [invalid-argument printable]]
   [arrowwood.impl.once :refer [deftype-once]]
   [clojure.string :as str])
  (:import
   (clojure.lang Counted IFn ILookup IReduce IReduceInit Indexed Seqable Sequential)
   (java.io Writer)
   (java.lang.foreign MemorySegment ValueLayout ValueLayout$OfByte ValueLayout$OfDouble ValueLayout$OfFloat ValueLayout$OfInt ValueLayout$OfLong ValueLayout$OfShort)
   (java.nio ByteOrder)
   (java.nio.charset CodingErrorAction StandardCharsets)))

(set! *warn-on-reflection* true)

(def ^:private ^ValueLayout$OfByte byte-layout ValueLayout/JAVA_BYTE)
(def ^:private ^ValueLayout$OfShort short-layout (.withOrder ValueLayout/JAVA_SHORT_UNALIGNED ByteOrder/LITTLE_ENDIAN))
(def ^:private ^ValueLayout$OfInt int-layout (.withOrder ValueLayout/JAVA_INT_UNALIGNED ByteOrder/LITTLE_ENDIAN))
(def ^:private ^ValueLayout$OfLong long-layout (.withOrder ValueLayout/JAVA_LONG_UNALIGNED ByteOrder/LITTLE_ENDIAN))
(def ^:private ^ValueLayout$OfFloat float-layout (.withOrder ValueLayout/JAVA_FLOAT_UNALIGNED ByteOrder/LITTLE_ENDIAN))
(def ^:private ^ValueLayout$OfDouble double-layout
  (.withOrder ValueLayout/JAVA_DOUBLE_UNALIGNED ByteOrder/LITTLE_ENDIAN))

(def ^:private bits
  "The width of each type."
  {:bit 1 :int8 8 :uint8 8 :int16 16 :uint16 16 :int32 32 :uint32 32 :int64 64 :uint64 64 :float32 32 :float64 64})

(defn- value
  "Reads number i of a segment."
  [^MemorySegment segment type ^long i]
  (case type
    :bit (bit-and 1 (bit-shift-right (.get segment byte-layout (bit-shift-right i 3)) (bit-and i 7)))
    :int8 (long (.get segment byte-layout i))
    :uint8 (bit-and 0xff (.get segment byte-layout i))
    :int16 (long (.getAtIndex segment short-layout i))
    :uint16 (bit-and 0xffff (.getAtIndex segment short-layout i))
    :int32 (long (.getAtIndex segment int-layout i))
    :uint32 (bit-and 0xffffffff (.getAtIndex segment int-layout i))
    :int64 (.getAtIndex segment long-layout i)
    :uint64 (let [n (.getAtIndex segment long-layout i)]
              (if (neg? n) (bigint (Long/toUnsignedString n)) n))
    :float32 (.getAtIndex segment float-layout i)
    :float64 (.getAtIndex segment double-layout i)))

(defn- checked-index
  "Returns an index, or throws if it is out of bounds."
  ^long [^long i ^long size]
  (if (and (<= 0 i) (< i size))
    i
    (throw (IndexOutOfBoundsException. (str "number " i " of memory that holds " size)))))

(defn- fold [segment type size start f init]
  (loop [i (long start) result init]
    (if (< i (long size))
      (let [result (f result (value segment type i))]
        (if (reduced? result) @result (recur (inc i) result)))
      result)))

(deftype-once Typed [^MemorySegment segment type ^long size]
  Counted
  (count [_] (Math/toIntExact size))
  Indexed
  (nth [_ i] (value segment type (checked-index i size)))
  (nth [_ i not-found] (if (and (<= 0 i) (< i size)) (value segment type i) not-found))
  ILookup
  (valAt [this i] (.valAt this i nil))
  (valAt [_ i not-found] (if (and (int? i) (<= 0 (long i)) (< (long i) size)) (value segment type i) not-found))
  IFn
  (invoke [_ i] (value segment type (checked-index i size)))
  Sequential
  Seqable
  (seq [_] (seq (map #(value segment type %) (range size))))
  IReduceInit
  (reduce [_ f init] (fold segment type size 0 f init))
  IReduce
  (reduce [_ f] (if (zero? size) (f) (fold segment type size 1 f (value segment type 0)))))

(defn typed
  "Returns the numbers of a type in a segment."
  ^Typed [^MemorySegment segment type]
  (let [width (or (when (keyword? type) (bits type))
                  (throw (invalid-argument "memory is not of type " (printable type) "; types are "
                           (str/join ", " (sort (keys bits))))))]
    (->Typed segment type (quot (* 8 (.byteSize segment)) (long width)))))

(defn text
  "Decodes bytes of a segment as UTF-8."
  [^MemorySegment segment ^long start ^long end]
  (let [bytes (.toArray (.asSlice segment start (- end start)) ValueLayout/JAVA_BYTE)
        decoder (-> (.newDecoder StandardCharsets/UTF_8)
                    (.onMalformedInput CodingErrorAction/REPORT))]
    (str (.decode decoder (java.nio.ByteBuffer/wrap bytes)))))

(def ^:private max-printed 20)

(defn print-items
  "Prints the first items of a sequence."
  [items more? ^Writer out]
  (.write out "[")
  (doseq [[i item] (map-indexed vector items)]
    (when (pos? (long i)) (.write out " "))
    (print-method item out))
  (.write out (if more? " ...]" "]")))

(defmethod print-method Typed [^Typed typed out]
  (let [size (long (.-size typed))]
    (print-items (map #(typed %) (range (min (long max-printed) size))) (< (long max-printed) size) out)))
