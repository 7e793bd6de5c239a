(ns arrowwood.tmd
  "Arrow data as a tech.ml.dataset, in place: columns are dtype-next's native buffers over the mapped file, and text in
  dictionaries is a StringTable over the mapped keys. Needs tech.ml.dataset on the class path.

      (require '[arrowwood.tmd :as tmd] '[tech.v3.dataset :as ds])
      (ds/head (tmd/->dataset \"prices.arrow\"))

  dtype-next reads raw addresses, so the garbage collector always owns the memory, even if the data was opened in
  another arena: the file is unmapped when nothing refers to the dataset, its columns or their buffers any longer."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.impl.arguments :as arguments]
   [arrowwood.impl.values :as values]
   [tech.v3.dataset :as ds]
   [tech.v3.dataset.string-table]
   [tech.v3.datatype :as dtype]
   ;; Teaches dtype-next to read memory segments, such as the results of `aw/map`.
   [tech.v3.datatype.ffi.native-buffer-mmodel-jdk21]
   [tech.v3.datatype.native-buffer :as native-buffer])
  (:import
   (dev.arrowwood Chunk Column Dataset)
   (dev.arrowwood.types Type Type$Bool Type$Date Type$Dictionary Type$Duration Type$Floating Type$Int Type$Layout Type$Text Type$Time Type$Timestamp Type$Unit)
   (java.io File)
   (java.lang.foreign Arena MemorySegment ValueLayout ValueLayout$OfByte ValueLayout$OfInt ValueLayout$OfLong)
   (java.nio.charset StandardCharsets)
   (java.nio.file Path)
   (java.time Instant)
   (java.util ArrayList List)
   (org.roaringbitmap RoaringBitmap)
   (tech.v3.dataset.string_table StringTable)))

(set! *warn-on-reflection* true)

(def ^:private ^ValueLayout$OfByte byte-layout ValueLayout/JAVA_BYTE)
(def ^:private ^ValueLayout$OfInt int-layout ValueLayout/JAVA_INT_UNALIGNED)
(def ^:private ^ValueLayout$OfLong long-layout ValueLayout/JAVA_LONG_UNALIGNED)

(def ^:private byte-width
  {:int8 1 :uint8 1 :int16 2 :uint16 2 :int32 4 :uint32 4 :int64 8 :uint64 8 :float32 4 :float64 8
   :packed-local-date 4 :packed-local-time 8 :packed-duration 8 :packed-instant 8 :packed-milli-instant 8})

(defn- native-values
  "Returns the values of a chunk as a native buffer, which keeps their memory."
  [^Chunk chunk datatype]
  (let [values (.values chunk)
        size (* (.rowCount chunk) (long (byte-width datatype)))]
    ;; Checked here, because only this size bounds later accesses.
    (when (< (.byteSize values) size)
      (throw (IndexOutOfBoundsException. (str "values of " (.byteSize values) " bytes, not " size))))
    (-> (native-buffer/wrap-address (.address values) size :int8 :little-endian values)
        (native-buffer/set-native-datatype datatype))))

(defn- unit [^Type$Unit unit] (keyword (str unit)))

(defn- in-place-datatype
  "Returns dtype-next's datatype for a type that it reads in place, or nil."
  [type]
  (cond
    (or (instance? Type$Int type) (and (instance? Type$Floating type) (< 16 (.bits ^Type$Floating type))))
    (keyword (str type))
    (and (instance? Type$Date type) (= 32 (.bits ^Type$Date type))) :packed-local-date
    (and (instance? Type$Time type) (= :us (unit (.unit ^Type$Time type)))) :packed-local-time
    (and (instance? Type$Duration type) (= :ns (unit (.unit ^Type$Duration type)))) :packed-duration
    (instance? Type$Timestamp type)
    ({:us :packed-instant :ms :packed-milli-instant} (unit (.unit ^Type$Timestamp type)))))

(defn- bits
  "Reads the values of a chunk of booleans."
  [^Chunk chunk]
  (let [values (.values chunk)
        first-bit (.valuesBit chunk)]
    (dtype/make-reader :boolean (.rowCount chunk)
                       (let [bit (+ first-bit idx)]
                         (odd? (bit-shift-right (.get values byte-layout (bit-shift-right bit 3)) (bit-and bit 7)))))))

(defn- text-at ^String [^MemorySegment data ^long start ^long end]
  (String. (.toArray (.asSlice data start (- end start)) byte-layout) StandardCharsets/UTF_8))

(defn- texts
  "Reads the texts of a chunk, and decodes them on access; a damaged offset throws IndexOutOfBoundsException."
  [^Chunk chunk large?]
  (let [offsets (.offsets chunk)
        data (.data chunk)]
    (if large?
      (dtype/make-reader :string (.rowCount chunk)
                         (text-at data (.getAtIndex offsets long-layout idx)
                                  (.getAtIndex offsets long-layout (inc idx))))
      (dtype/make-reader :string (.rowCount chunk)
                         (text-at data (.getAtIndex offsets int-layout idx)
                                  (.getAtIndex offsets int-layout (inc idx)))))))

(defn- instants
  "Reads timestamps in units that dtype-next can't pack."
  [^Chunk chunk ^long per-second]
  (let [values (.values chunk)
        nanos (quot 1000000000 per-second)]
    (dtype/make-reader :instant (.rowCount chunk)
                       (let [count (.getAtIndex values long-layout idx)]
                         (Instant/ofEpochSecond (Math/floorDiv count per-second)
                                                (* nanos (Math/floorMod count per-second)))))))

(defn- cells
  "Reads values of any type, cell by cell."
  [^Column column ^Chunk chunk datatype]
  (let [first-row (.firstRow chunk)]
    (dtype/make-reader datatype (.rowCount chunk) (values/value (.get column (+ first-row idx))))))

(defn- key-type ^Type [^Type$Dictionary type] (.keys type))

(defn- text-layout
  "Returns the layout of a text type, or nil for other types."
  [type]
  (when (instance? Type$Text type) (.layout ^Type$Text type)))

(defn- strings
  "Returns the texts of a dictionary as a list, decoded once for all chunks that share it."
  [^Chunk dictionary large? cache]
  (let [location [(.address (.offsets dictionary)) (.address (.data dictionary)) (.rowCount dictionary)]]
    (or (get @cache location)
        (let [list (ArrayList. ^List (vec (texts dictionary large?)))]
          (vswap! cache assoc location list)
          list))))

(defn- dictionary-reader [^Type$Dictionary type cache]
  (let [datatype (keyword (str (key-type type)))
        large? (= Type$Layout/LARGE (text-layout (.values type)))]
    (fn [^Chunk chunk]
      (StringTable. (strings (.get (.dictionary chunk)) large? cache) nil
                    (dtype/->buffer (native-values chunk datatype))))))

(defn- reader
  "Returns the datatype of a column, and a function from a chunk to its values."
  [^Column column]
  (let [type (.type (.field column))
        datatype (in-place-datatype type)]
    (cond
      datatype [datatype #(native-values % datatype)]
      (instance? Type$Bool type) [:boolean bits]
      (instance? Type$Timestamp type)
      (let [per-second (.perSecond (.unit ^Type$Timestamp type))] [:instant #(instants % per-second)])
      (#{Type$Layout/NORMAL Type$Layout/LARGE} (text-layout type))
      (let [large? (= Type$Layout/LARGE (text-layout type))] [:string #(texts % large?)])
      (and (instance? Type$Dictionary type) (#{Type$Layout/NORMAL Type$Layout/LARGE}
                                             (text-layout (.values ^Type$Dictionary type))))
      [:string (dictionary-reader type (volatile! {}))]
      (text-layout type) [:string #(cells column % :string)]
      :else [:object #(cells column % :object)])))

(defn- add-missing
  "Adds the rows of a chunk that are null in its bitmap."
  [^RoaringBitmap missing ^Chunk chunk]
  (when (and (pos? (.nullCount chunk)) (.isPresent (.validity chunk)))
    (let [^MemorySegment bitmap (.get (.validity chunk))
          first-bit (.validityBit chunk)
          first-row (.firstRow chunk)
          rows (.rowCount chunk)]
      (when (< 0xffffffff (+ first-row rows))
        (throw (IllegalArgumentException.
                 "tech.ml.dataset knows missing values of 4,294,967,295 rows at most: slice it")))
      (dotimes [row rows]
        (let [bit (+ first-bit row)]
          (when (even? (bit-shift-right (.get bitmap byte-layout (bit-shift-right bit 3)) (bit-and bit 7)))
            (.add missing (unchecked-int (+ first-row row)))))))))

(defn- add-nulls-by-cell
  "Adds the null rows of a column, cell by cell: for columns without a bitmap, or with nulls in their dictionary."
  [^RoaringBitmap missing ^Column column]
  (when (pos? (.nullCount column))
    (dotimes [row (.rowCount (.dataset column))]
      (when (nil? (.get column row)) (.add missing (unchecked-int row))))))

(defn- missing-rows [^Column column datatype chunks]
  (let [missing (RoaringBitmap.)
        type (.type (.field column))]
    (if (or (= :object datatype)
            (and (instance? Type$Dictionary type)
                 (some #(let [dictionary (.dictionary ^Chunk %)]
                          (and (.isPresent dictionary) (pos? (.nullCount ^Chunk (.get dictionary))))) chunks)))
      (add-nulls-by-cell missing column)
      (run! #(add-missing missing %) chunks))
    missing))

(defn- ->tmd-column [^Column column key-fn]
  (let [[datatype read] (reader column)
        chunks (filterv #(pos? (.rowCount ^Chunk %)) (.chunks column))
        data (case (count chunks)
               0 (dtype/make-container datatype 0)
               1 (read (first chunks))
               (dtype/concat-buffers datatype (mapv read chunks)))]
    ;; Forced, or tech.ml.dataset would search objects for a narrower type.
    #:tech.v3.dataset{:name (key-fn (.name (.field column)))
                      :data data
                      :missing (missing-rows column datatype chunks)
                      :force-datatype? true}))

(defn ->dataset
  "Returns a tech.ml.dataset over a dataset, or over a path as `aw/open` takes it. Copies the texts of dictionaries,
  once each; all other values stay in place, and are read on access.

  Numbers, dates, and timestamps in milli- and microseconds are native buffers: :packed-local-date, :packed-instant,
  :packed-milli-instant (as if in UTC if they have no time zone). dtype-next reads :uint64 as a long, so that numbers
  from 2^63 on are negative. Lists, structs, decimals and the like are columns of objects, as `nth` of a column returns
  them.

  Options:
    :key-fn        a function from the names of columns to those in the result, such as keyword; default: strings
    :dataset-name  default: the file's name"
  ([data] (->dataset data nil))
  ([data options]
   (let [{:keys [key-fn dataset-name]} (arguments/checked-options "->dataset" [:key-fn :dataset-name] options)
         path? (or (string? data) (instance? File data) (instance? Path data))
         opened (if path? (aw/open data) data)
         ^Dataset java (.in (aw/java-dataset opened) (Arena/ofAuto))]
     (ds/new-dataset {:dataset-name (or dataset-name (aw/dataset-name opened))}
                     (mapv #(->tmd-column % (or key-fn identity)) (.columns java))))))
