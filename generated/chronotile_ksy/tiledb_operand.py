# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_datatype
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbOperand(KaitaiStruct):
    """Raw bytes of the field's type, which only the array's schema tells: an
    attribute or a dimension; for an enumeration the index of the label; for a
    date or time an i64 in the field's unit.
    
    All but `raw` is a guess, for people who look at a tree. Printable bytes are
    text first: four or eight of them are text, one or two may also be a number.
    Eight bytes are a float64 if that is neither tiny nor huge. Other values of 1,
    2, 4 or 8 bytes are integers, all others are text.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    """

    class Shapes(IntEnum):
        text = 0
        s1 = 1
        s2 = 2
        short_text = 3
        s4 = 4
        u8 = 5
        f8 = 6
        s8 = 8
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbOperand, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.raw = self._io.read_bytes_full()


    def _fetch_instances(self):
        pass
        _ = self.guess
        if hasattr(self, '_m_guess'):
            pass
            _on = self.shape
            if _on == TiledbOperand.Shapes.f8:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s1:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s2:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s4:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s8:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.short_text:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.u8:
                pass
                self._m_guess._fetch_instances()
            else:
                pass
                self._m_guess._fetch_instances()


    class GuessShortText(KaitaiStruct):
        """One or two printable bytes, which are as often a small integer.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessShortText, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.value = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass

        @property
        def number(self):
            if hasattr(self, '_m_number'):
                return self._m_number

            self._m_number = (KaitaiStream.byte_array_index(self.value, 0) if len(self.value) == 1 else KaitaiStream.byte_array_index(self.value, 0) + 256 * KaitaiStream.byte_array_index(self.value, 1))
            return getattr(self, '_m_number', None)


    class GuessU8(KaitaiStruct):
        """Eight bytes that are a large unsigned integer, or a negative one far from
        0, such as a date long ago in nanoseconds.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessU8, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.low = self._io.read_u4le()
            self.high = self._io.read_u4le()


        def _fetch_instances(self):
            pass

        @property
        def negative(self):
            if hasattr(self, '_m_negative'):
                return self._m_negative

            self._m_negative = (self.high - 4294967296) * 4294967296 + self.low
            return getattr(self, '_m_negative', None)

        @property
        def value(self):
            if hasattr(self, '_m_value'):
                return self._m_value

            self._m_value = self.high * 4294967296 + self.low
            return getattr(self, '_m_value', None)


    @property
    def guess(self):
        if hasattr(self, '_m_guess'):
            return self._m_guess

        _pos = self._io.pos()
        self._io.seek(0)
        _on = self.shape
        if _on == TiledbOperand.Shapes.f8:
            pass
            self._m_guess = tiledb_datatype.TiledbDatatype.ValueNumber(tiledb_datatype.TiledbDatatype.Codes.float64, self._io)
        elif _on == TiledbOperand.Shapes.s1:
            pass
            self._m_guess = tiledb_datatype.TiledbDatatype.ValueNumber(tiledb_datatype.TiledbDatatype.Codes.int8, self._io)
        elif _on == TiledbOperand.Shapes.s2:
            pass
            self._m_guess = tiledb_datatype.TiledbDatatype.ValueNumber(tiledb_datatype.TiledbDatatype.Codes.int16, self._io)
        elif _on == TiledbOperand.Shapes.s4:
            pass
            self._m_guess = tiledb_datatype.TiledbDatatype.ValueNumber(tiledb_datatype.TiledbDatatype.Codes.int32, self._io)
        elif _on == TiledbOperand.Shapes.s8:
            pass
            self._m_guess = tiledb_datatype.TiledbDatatype.ValueS8(self._io)
        elif _on == TiledbOperand.Shapes.short_text:
            pass
            self._m_guess = TiledbOperand.GuessShortText(self._io, self, self._root)
        elif _on == TiledbOperand.Shapes.u8:
            pass
            self._m_guess = TiledbOperand.GuessU8(self._io, self, self._root)
        else:
            pass
            self._m_guess = tiledb_datatype.TiledbDatatype.ValueText(self._io)
        self._io.seek(_pos)
        return getattr(self, '_m_guess', None)

    @property
    def is_float(self):
        """Whether a float64 is from 2^-40 to 2^50, or minus that."""
        if hasattr(self, '_m_is_float'):
            return self._m_is_float

        self._m_is_float =  (((self.top % 32768) // 16 >= 983) and ((self.top % 32768) // 16 <= 1073)) 
        return getattr(self, '_m_is_float', None)

    @property
    def is_printable(self):
        if hasattr(self, '_m_is_printable'):
            return self._m_is_printable

        self._m_is_printable =  ((len(self.raw) == 0) or ( ((KaitaiStream.byte_array_min(self.raw) >= 32) and (KaitaiStream.byte_array_max(self.raw) <= 126)) )) 
        return getattr(self, '_m_is_printable', None)

    @property
    def shape(self):
        """A negative integer of eight bytes is small, or it is none."""
        if hasattr(self, '_m_shape'):
            return self._m_shape

        self._m_shape = (TiledbOperand.Shapes.short_text if  ((self.is_printable) and (len(self.raw) > 0) and (len(self.raw) <= 2))  else (TiledbOperand.Shapes.text if self.is_printable else (TiledbOperand.Shapes.s1 if len(self.raw) == 1 else (TiledbOperand.Shapes.s2 if len(self.raw) == 2 else (TiledbOperand.Shapes.s4 if len(self.raw) == 4 else (TiledbOperand.Shapes.text if len(self.raw) != 8 else (TiledbOperand.Shapes.f8 if self.is_float else (TiledbOperand.Shapes.u8 if  ((self.top >= 32768) and (self.top < 65520))  else TiledbOperand.Shapes.s8))))))))
        return getattr(self, '_m_shape', None)

    @property
    def top(self):
        """Of eight bytes the two highest, which have the exponent of a float64."""
        if hasattr(self, '_m_top'):
            return self._m_top

        self._m_top = (KaitaiStream.byte_array_index(self.raw, 7) * 256 + KaitaiStream.byte_array_index(self.raw, 6) if len(self.raw) == 8 else 0)
        return getattr(self, '_m_top', None)


